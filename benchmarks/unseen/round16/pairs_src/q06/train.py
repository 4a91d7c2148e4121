"""Leaf-disease classifier on small image crops, with a periodic hold-out check."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUM_CLASSES = 5


class ConvUnit(nn.Sequential):
    def __init__(self, cin, cout, stride=1):
        super().__init__(
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
            nn.GroupNorm(4, cout),
            nn.ReLU(inplace=True),
            nn.Dropout2d(0.1),
        )


class LeafNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Sequential(ConvUnit(3, width), ConvUnit(width, 2 * width, 2), ConvUnit(2 * width, 2 * width))
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(2 * width, NUM_CLASSES)

    def forward(self, x):
        h = self.body(x).mean((2, 3))
        return self.fc(self.drop(h))


def crops(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, NUM_CLASSES, (n,), generator=g)
    tint = torch.eye(NUM_CLASSES)[:, :3][y]
    x = torch.randn(n, 3, 12, 12, generator=g) * 0.5 + tint[:, :, None, None]
    return x, y


class HoldOut:
    def __init__(self, device, batches=2, batch=16):
        x, y = crops(batches * batch, seed=77)
        self.parts = [(a.to(device), b.to(device)) for a, b in zip(x.split(batch), y.split(batch))]

    @torch.no_grad()
    def accuracy(self, model):
        model.eval()
        hits = 0
        for x, y in self.parts:
            hits += (model(x).argmax(1) == y).sum().item()
        return hits / sum(len(y) for _, y in self.parts)


class Trainer:
    def __init__(self, steps=24, check_every=12, batch=16):
        self.device = torch_xla.device()
        self.steps, self.check_every, self.batch = steps, check_every, batch
        self.model = LeafNet().to(self.device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=2 * steps)
        self.hold = HoldOut(self.device)

    def fit(self):
        self.model.train()
        torch_xla.sync()
        for step in range(1, self.steps + 1):
            x, y = crops(self.batch, seed=step)
            loss = self.update(x.to(self.device), y.to(self.device))
            if step % self.check_every == 0:
                acc = self.hold.accuracy(self.model)
                print(f"step {step} loss {loss.item():.3f} hold-out {acc:.2f} lr {self.sched.get_last_lr()[0]:.4f}")

    def update(self, x, y):
        loss = F.cross_entropy(self.model(x), y, label_smoothing=0.05)
        self.opt.zero_grad()
        loss.backward()
        xm.optimizer_step(self.opt, barrier=True)
        self.sched.step()
        return loss.detach()


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer().fit()
