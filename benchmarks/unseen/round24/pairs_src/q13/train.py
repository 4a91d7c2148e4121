"""Linear-probe then fine-tune: a small residual CNN whose stages are released one after another."""
from dataclasses import dataclass, field
from typing import Dict

import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    classes: int = 5
    width: int = 8
    batch: int = 8
    size: int = 16
    lr_head: float = 3e-3
    lr_body: float = 3e-4
    wd: float = 0.02
    release: Dict[int, str] = field(default_factory=lambda: {3: "stage2", 6: "stage1"})
    total_steps: int = 8


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.gn1 = nn.GroupNorm(4, cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.gn2 = nn.GroupNorm(4, cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)
        self.act = nn.ReLU()

    def forward(self, x):
        y = self.act(self.gn1(self.conv1(x)))
        y = self.gn2(self.conv2(y))
        return self.act(y + self.skip(x))


class Net(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.stage1 = ResBlock(3, w, 2)
        self.stage2 = ResBlock(w, 2 * w, 2)
        self.head = nn.Sequential(nn.Linear(2 * w, 2 * w), nn.Tanh(), nn.Linear(2 * w, cfg.classes))

    def forward(self, x):
        x = self.stage2(self.stage1(x))
        return self.head(x.mean(dim=(2, 3)))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.net = Net(cfg).to(self.device)
        for stage in (self.net.stage1, self.net.stage2):
            stage.requires_grad_(False)
        body = list(self.net.stage1.parameters()) + list(self.net.stage2.parameters())
        self.opt = torch.optim.AdamW(
            [
                {"params": self.net.head.parameters(), "lr": cfg.lr_head},
                {"params": body, "lr": cfg.lr_body},
            ],
            weight_decay=cfg.wd,
        )
        self.criterion = nn.CrossEntropyLoss()
        xm.mark_step()

    def maybe_release(self, step):
        name = self.cfg.release.get(step)
        if name is not None:
            getattr(self.net, name).requires_grad_(True)
            xm.master_print(f"step {step}: training {name}")

    def fit(self, data):
        for step, (x, y) in enumerate(data):
            self.maybe_release(step)
            x, y = x.to(self.device), y.to(self.device)
            self.opt.zero_grad()
            out = self.net(x)
            loss = self.criterion(out, y)
            loss.backward()
            self.opt.step()
            xm.mark_step()
            if step % 4 == 3:
                acc = (out.argmax(-1) == y).float().mean()
                xm.master_print(f"step {step} loss {loss.item():.4f} acc {acc.item():.2f}")


def synthetic(cfg):
    g = torch.Generator().manual_seed(1)
    protos = torch.randn(cfg.classes, 3, 1, 1, generator=g)
    for _ in range(cfg.total_steps):
        y = torch.randint(0, cfg.classes, (cfg.batch,), generator=g)
        x = protos[y] + 0.5 * torch.randn(cfg.batch, 3, cfg.size, cfg.size, generator=g)
        yield x, y


if __name__ == "__main__":
    torch.manual_seed(0)
    cfg = Config()
    Trainer(cfg).fit(synthetic(cfg))
