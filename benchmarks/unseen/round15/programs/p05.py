"""Precipitation nowcasting: coarse-to-fine training of a small U-Net."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Phase:
    name: str
    grid: int
    steps: int
    batch: int
    lr: float
    frozen: tuple = ()


@dataclass
class Plan:
    history: int = 4
    width: int = 8
    phases: list = field(default_factory=lambda: [
        Phase("coarse", grid=16, steps=25, batch=16, lr=4e-3),
        Phase("medium", grid=24, steps=25, batch=12, lr=2e-3),
        Phase("fine-head", grid=32, steps=20, batch=8, lr=2e-3, frozen=("enc1", "enc2")),
        Phase("fine", grid=32, steps=25, batch=8, lr=5e-4),
    ])


class RadarSequences:
    """Advected Gaussian rain cells, rendered on demand at any resolution."""

    def __init__(self, history, seed):
        self.history = history
        self.g = torch.Generator().manual_seed(seed)

    def batch(self, n, grid, cells=5):
        axis = torch.linspace(0, 1, grid)
        pos = torch.rand(n, cells, 2, generator=self.g)
        vel = 0.06 * torch.randn(n, 1, 2, generator=self.g)
        size = 0.05 + 0.1 * torch.rand(n, cells, generator=self.g)
        rate = torch.rand(n, cells, generator=self.g)
        frames = []
        for t in range(self.history + 1):
            p = pos + t * vel
            dx = axis.view(1, 1, 1, -1) - p[..., 0, None, None]
            dy = axis.view(1, 1, -1, 1) - p[..., 1, None, None]
            s = size[..., None, None]
            blob = rate[..., None, None] * torch.exp(-(dx ** 2 + dy ** 2) / (2 * s ** 2))
            frames.append(blob.sum(1))
        stack = torch.stack(frames, 1)
        return stack[:, :-1], stack[:, -1:]


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.SiLU())


class NowcastNet(nn.Module):
    def __init__(self, history, w):
        super().__init__()
        self.enc1 = block(history, w)
        self.enc2 = block(w, 2 * w)
        self.mid = block(2 * w, 2 * w)
        self.up = nn.ConvTranspose2d(2 * w, 2 * w, 2, stride=2)
        self.dec = block(3 * w, w)
        self.head = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.avg_pool2d(a, 2))
        b = self.mid(b)
        return x[:, -1:] + self.head(self.dec(torch.cat([self.up(b), a], 1)))


def rain_loss(pred, target):
    weight = 1 + 4 * (target > 0.3).float()
    return (weight * (pred - target).abs()).mean()


class Nowcaster:
    def __init__(self, plan):
        self.plan = plan
        self.device = torch_xla.device()
        self.net = NowcastNet(plan.history, plan.width).to(self.device)
        self.radar = RadarSequences(plan.history, seed=21)

    def prepare(self, phase):
        for name, module in self.net.named_children():
            for p in module.parameters():
                p.requires_grad_(name not in phase.frozen)
                p.grad = None
        trainable = [p for p in self.net.parameters() if p.requires_grad]
        opt = torch.optim.AdamW(trainable, lr=phase.lr, weight_decay=1e-2)
        warm = max(1, phase.steps // 5)
        sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / warm))
        holdout = [t.to(self.device) for t in self.radar.batch(phase.batch, phase.grid)]
        return opt, sched, holdout

    def run_phase(self, phase):
        opt, sched, holdout = self.prepare(phase)
        self.net.train()
        total = torch.zeros((), device=self.device)
        for step in range(phase.steps):
            x, y = self.radar.batch(phase.batch, phase.grid)
            with torch_xla.step():
                x, y = x.to(self.device), y.to(self.device)
                loss = rain_loss(self.net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.detach()
            sched.step()
        csi = self.evaluate(*holdout)
        xm.master_print(f"{phase.name:10s} {phase.grid:2d}px  "
                        f"train {total.item() / phase.steps:.4f}  CSI {csi:.3f}")

    @torch.no_grad()
    def evaluate(self, x, y, threshold=0.3):
        self.net.eval()
        hit = (self.net(x) > threshold)
        obs = (y > threshold)
        both = (hit & obs).sum().float()
        either = (hit | obs).sum().float()
        score = both / either.clamp(min=1)
        torch_xla.sync()
        return score.item()

    def fit(self):
        for phase in self.plan.phases:
            self.run_phase(phase)


if __name__ == "__main__":
    torch.manual_seed(21)
    Nowcaster(Plan()).fit()
