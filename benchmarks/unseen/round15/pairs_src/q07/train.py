"""Leaf disease grading from small RGB crops."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
from torch.utils.data import DataLoader, Dataset, random_split

GRADES = 5


class LeafCrops(Dataset):
    def __init__(self, n=320, size=16):
        g = torch.Generator().manual_seed(33)
        self.y = torch.randint(0, GRADES, (n,), generator=g)
        self.x = 0.3 * torch.randn(n, 3, size, size, generator=g)
        for i, grade in enumerate(self.y.tolist()):
            for _ in range(grade):
                r, c = torch.randint(0, size - 3, (2,), generator=g).tolist()
                self.x[i, 0, r:r + 3, c:c + 3] += 1.0
                self.x[i, 1, r:r + 3, c:c + 3] -= 0.5

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def conv_gn(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
                         nn.GroupNorm(4, cout), nn.Hardswish(), nn.Dropout2d(0.05))


class LeafNet(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.features = nn.Sequential(conv_gn(3, w, 1), conv_gn(w, 2 * w, 2), conv_gn(2 * w, 2 * w, 2))
        self.classifier = nn.Sequential(nn.Linear(2 * w, 32), nn.ReLU(), nn.Dropout(0.25), nn.Linear(32, GRADES))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Session:
    def __init__(self, device):
        self.device = device
        self.model = LeafNet().to(device)
        decay = [p for p in self.model.parameters() if p.ndim > 1]
        plain = [p for p in self.model.parameters() if p.ndim <= 1]
        self.opt = torch.optim.SGD([{"params": decay, "weight_decay": 5e-4}, {"params": plain}],
                                   lr=0.03, momentum=0.9, nesterov=True)
        self.step = 0

    @torch.no_grad()
    def quadratic_kappa(self, loader):
        self.model.eval()
        table = torch.zeros(GRADES, GRADES)
        for x, y in loader:
            pred = self.model(x.to(self.device)).argmax(1).cpu()
            for t, p in zip(y, pred):
                table[t, p] += 1
        w = (torch.arange(GRADES)[:, None] - torch.arange(GRADES)[None]).float() ** 2
        chance = table.sum(1, keepdim=True) * table.sum(0, keepdim=True) / table.sum()
        return 1 - (w * table).sum() / (w * chance).sum().clamp(min=1e-6)

    def fit_batch(self, x, y):
        self.opt.zero_grad()
        loss = F.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        self.step += 1
        return loss


def main():
    torch.manual_seed(2)
    train_set, val_set = random_split(LeafCrops(), [256, 64])
    train = DataLoader(train_set, batch_size=16, shuffle=True)
    val = DataLoader(val_set, batch_size=32)
    s = Session(xm.xla_device())
    s.model.train()
    for epoch in range(3):
        for x, y in train:
            loss = s.fit_batch(x, y)
            if s.step % 12 == 0:
                kappa = s.quadratic_kappa(val)
                print(f"epoch {epoch} step {s.step} loss {loss.item():.3f} kappa {kappa:.3f} "
                      f"compiles {met.counter_value('UncachedCompile')}")


if __name__ == "__main__":
    main()
