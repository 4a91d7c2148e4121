#!/usr/bin/env python
"""Keyword spotting on synthetic spectrograms with large effective batches."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

CONFIG = {
    "model": {"bands": 10, "width": 16, "classes": 5},
    "data": {"frames": 20, "micro_batch": 4},
    "optim": {"lr": 0.01, "alpha": 0.95, "micro_batches": 4, "windows": 3},
}


class DSBlock(nn.Module):
    """depthwise separable conv, group norm, hard swish"""

    def __init__(self, width, kernel=5):
        super().__init__()
        self.dw = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.pw = nn.Conv1d(width, width, 1, bias=False)
        self.gn = nn.GroupNorm(4, width)
        self.act = nn.Hardswish()

    def forward(self, x):
        return x + self.act(self.gn(self.pw(self.dw(x))))


class Spotter(nn.Module):
    def __init__(self, bands, width, classes):
        super().__init__()
        self.stem = nn.Conv1d(bands, width, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(DSBlock(width), DSBlock(width))
        self.query = nn.Parameter(torch.randn(width) / width ** 0.5)
        self.fc = nn.Linear(width, classes)

    def forward(self, spec):
        h = self.blocks(self.stem(spec))
        score = torch.einsum("bct,c->bt", h, self.query).softmax(dim=-1)
        pooled = torch.einsum("bct,bt->bc", h, score)
        return self.fc(pooled)


class Synthetic:
    def __init__(self, bands, frames, classes, micro_batch, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.templates = torch.randn(classes, bands, frames, generator=self.g)
        self.n = micro_batch

    def draw(self):
        y = torch.randint(0, len(self.templates), (self.n,), generator=self.g)
        x = self.templates[y]
        return x + 0.7 * torch.randn(x.shape, generator=self.g), y


class Trainer:
    def __init__(self, cfg):
        torch.manual_seed(1234)
        self.dev = torch_xla.device()
        self.every = cfg["optim"]["micro_batches"]
        self.windows = cfg["optim"]["windows"]
        self.net = Spotter(**cfg["model"]).to(self.dev)
        self.opt = torch.optim.RMSprop(
            self.net.parameters(), lr=cfg["optim"]["lr"], alpha=cfg["optim"]["alpha"]
        )
        self.crit = nn.CrossEntropyLoss()
        self.data = Synthetic(
            cfg["model"]["bands"], cfg["data"]["frames"], cfg["model"]["classes"],
            cfg["data"]["micro_batch"],
        )

    def micro(self):
        x, y = self.data.draw()
        x, y = x.to(self.dev), y.to(self.dev)
        loss = self.crit(self.net(x), y)
        (loss / self.every).backward()
        return loss.detach()

    def fit(self):
        log = []
        for w in range(self.windows):
            self.opt.zero_grad(set_to_none=True)
            for m in range(self.every):
                log.append(self.micro())
                if m + 1 < self.every:
                    xm.mark_step()
            self.opt.step()
            xm.mark_step()
            print("window", w, "loss", sum(v.item() for v in log[-self.every:]) / self.every)


if __name__ == "__main__":
    Trainer(CONFIG).fit()
