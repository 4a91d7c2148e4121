"""Click-through model on synthetic logs: deep & cross network."""
import copy

import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

config = dict(
    fields=(12, 9, 30, 5),
    embed_dim=8,
    dense=6,
    cross_layers=2,
    mlp=(48, 24),
    batch_size=32,
    lr=5e-3,
    average_from=3,
    average_decay=0.98,
)


class ClickLog(Dataset):

    def __init__(self, n, fields, dense):
        g = torch.Generator().manual_seed(8)
        self.cat = torch.stack([torch.randint(0, f, (n,), generator=g) for f in fields], 1)
        self.num = torch.randn(n, dense, generator=g)
        score = self.num[:, 0] - 0.5 * self.num[:, 1] + 0.1 * self.cat[:, 3]
        self.click = (score > 0.3).float()

    def __len__(self):
        return len(self.click)

    def __getitem__(self, i):
        return self.cat[i], self.num[i], self.click[i]


class CrossLayer(nn.Module):

    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width)

    def forward(self, x0, x):
        return x0 * self.lin(x) + x


class DCN(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        e = cfg["embed_dim"]
        self.tables = nn.ModuleList([nn.Embedding(f, e) for f in cfg["fields"]])
        for t in self.tables:
            nn.init.normal_(t.weight, std=0.05)
        width = e * len(cfg["fields"]) + cfg["dense"]
        self.cross = nn.ModuleList([CrossLayer(width) for _ in range(cfg["cross_layers"])])
        layers, prev = [], width
        for h in cfg["mlp"]:
            layers += [nn.Linear(prev, h), nn.ReLU()]
            prev = h
        self.mlp = nn.Sequential(*layers)
        self.top = nn.Linear(prev + width, 1)

    def forward(self, cat, num):
        x0 = torch.cat([t(cat[:, i]) for i, t in enumerate(self.tables)] + [num], 1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        return self.top(torch.cat([x, self.mlp(x0)], 1)).squeeze(1)


class WeightAverage:

    def __init__(self, model, decay, start):
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay
        self.start = start
        self.seen = 0

    @torch.no_grad()
    def update(self, model):
        self.seen += 1
        if self.seen <= self.start:
            return
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1.0 - self.decay)


def main(cfg):
    torch.manual_seed(2)
    device = torch_xla.device()
    logs = ClickLog(32 * 3 + 13, cfg["fields"], cfg["dense"])
    loader = pl.MpDeviceLoader(DataLoader(logs, batch_size=cfg["batch_size"]), device)
    model = DCN(cfg).to(device)
    avg = WeightAverage(model, cfg["average_decay"], cfg["average_from"])
    optimizer = torch.optim.Adagrad(model.parameters(), lr=cfg["lr"])
    for epoch in range(2):
        losses = []
        for cat, num, click in loader:
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(cat, num), click)
            loss.backward()
            xm.optimizer_step(optimizer)
            avg.update(model)
            losses.append(loss.detach())
        xm.master_print(f"epoch {epoch} loss {torch.stack(losses).mean().item():.4f}")


if __name__ == "__main__":
    main(config)
