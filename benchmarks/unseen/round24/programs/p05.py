"""Tabular fine-tuning in two stages: new head first, then the whole network, weights averaged at the end."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel
from sklearn.datasets import make_classification
import torch_xla
import torch_xla.core.xla_model as xm

BATCH = 32


class ResBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.a = nn.Linear(d, 2 * d)
        self.b = nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.b(F.silu(self.a(self.norm(x))))


class TabNet(nn.Module):
    def __init__(self, d_in, d=32, blocks=3, classes=3):
        super().__init__()
        self.stem = nn.Linear(d_in, d)
        self.blocks = nn.Sequential(*[ResBlock(d) for _ in range(blocks)])
        self.head = nn.Linear(d, classes)

    def backbone_parameters(self):
        yield from self.stem.parameters()
        yield from self.blocks.parameters()

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


def load():
    x, y = make_classification(n_samples=416, n_features=20, n_informative=10, n_classes=3,
                               random_state=0, class_sep=1.2)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    return (x[:320], y[:320]), (x[320:], y[320:])


def batches(data, device, shuffle):
    x, y = data
    order = torch.randperm(len(y)) if shuffle else torch.arange(len(y))
    for k in range(0, len(y) - BATCH + 1, BATCH):
        idx = order[k:k + BATCH]
        yield x[idx].to(device), y[idx].to(device)


def train_epoch(model, opt, data, device):
    model.train()
    for x, y in batches(data, device, shuffle=True):
        with torch_xla.step():
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
    return loss.detach()


@torch.no_grad()
def accuracy(model, data, device):
    model.eval()
    right, total = 0, 0
    for x, y in batches(data, device, shuffle=False):
        pred = model(x).argmax(-1)
        torch_xla.sync()
        right += (pred.cpu() == y.cpu()).sum().item()
        total += len(y)
    return right / total


def main(head_epochs=3, full_epochs=16, swa_from=3):
    torch.manual_seed(0)
    device = torch_xla.device()
    train, valid = load()
    model = TabNet(train[0].shape[1]).to(device)
    swa = AveragedModel(model)

    for p in model.backbone_parameters():
        p.requires_grad_(False)
    opt = torch.optim.SGD(model.head.parameters(), lr=0.1, momentum=0.9)
    for e in range(head_epochs):
        loss = train_epoch(model, opt, train, device)
        print(f"head  {e} loss {loss.item():.3f} valid {accuracy(model, valid, device):.3f}")

    for p in model.parameters():
        p.requires_grad_(True)
    opt = torch.optim.AdamW([
        {"params": model.backbone_parameters(), "lr": 1e-3},
        {"params": model.head.parameters(), "lr": 3e-3},
    ])
    for e in range(full_epochs):
        loss = train_epoch(model, opt, train, device)
        if e >= swa_from:
            swa.update_parameters(model)
            torch_xla.sync()
        print(f"full  {e} loss {loss.item():.3f} valid {accuracy(model, valid, device):.3f}")

    print(f"averaged valid {accuracy(swa, valid, device):.3f}")


if __name__ == "__main__":
    main()
