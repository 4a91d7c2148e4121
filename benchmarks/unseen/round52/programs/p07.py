"""Keyword spotting with a depthwise-separable convnet on synthetic mel patches.

Every now and then the fraction of active units per layer is printed, to spot
layers that die at the higher learning rates of the sweep.
"""
import dataclasses
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclasses.dataclass
class HParams:
    n_mels: int = 20
    frames: int = 32
    keywords: int = 5
    batch_size: int = 24
    steps: int = 30
    peak_lr: float = 6e-3
    warmup: int = 6
    weight_decay: float = 1e-3
    report_interval: int = 6
    seed: int = 1234


class Keywords:
    """Each keyword is a pair of formant sweeps plus background noise."""

    def __init__(self, hp):
        self.hp = hp
        self.gen = torch.Generator().manual_seed(hp.seed)
        self.start = torch.rand(hp.keywords, 2, generator=self.gen) * hp.n_mels
        self.slope = torch.randn(hp.keywords, 2, generator=self.gen) * 6.0

    def batch(self):
        hp = self.hp
        y = torch.randint(0, hp.keywords, (hp.batch_size,), generator=self.gen)
        t = torch.linspace(0, 1, hp.frames)
        mel = torch.arange(hp.n_mels).float()
        jitter = torch.randn(hp.batch_size, 2, generator=self.gen) * 0.7
        track = (self.start[y] + jitter)[:, :, None] + self.slope[y][:, :, None] * t
        patch = torch.exp(-(mel[None, None, :, None] - track[:, :, None, :]).square() / 2.0)
        patch = patch.sum(1) + 0.3 * torch.rand(patch[:, 0].shape, generator=self.gen)
        return patch.unsqueeze(1), y


class DSBlock(nn.Module):
    def __init__(self, c_in, c_out, stride=1):
        super().__init__()
        self.depth = nn.Conv2d(c_in, c_in, 3, stride=stride, padding=1, groups=c_in, bias=False)
        self.norm1 = nn.BatchNorm2d(c_in)
        self.act1 = nn.ReLU()
        self.point = nn.Conv2d(c_in, c_out, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(c_out)
        self.act2 = nn.ReLU()

    def forward(self, x):
        x = self.act1(self.norm1(self.depth(x)))
        return self.act2(self.norm2(self.point(x)))


class DSCNN(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.ReLU())
        self.blocks = nn.Sequential(DSBlock(12, 16), DSBlock(16, 24, stride=2))
        self.head = nn.Linear(24, hp.keywords)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


class ActivityReport:
    def __init__(self, model, probe):
        self.model = model
        self.probe = probe

    def collect(self):
        fractions = []

        def keep_fraction(module, inputs, output):
            fractions.append((output > 0).float().mean())

        for module in self.model.modules():
            if isinstance(module, nn.ReLU):
                module.register_forward_hook(keep_fraction)

        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            self.model(self.probe)
        self.model.train(was_training)
        return torch.stack(fractions).cpu().tolist()


def lr_factor(hp):
    def factor(step):
        if step < hp.warmup:
            return (step + 1) / hp.warmup
        progress = (step - hp.warmup) / max(1, hp.steps - hp.warmup)
        return 0.5 * (1.0 + math.cos(math.pi * progress))
    return factor


def run(hp):
    torch.manual_seed(hp.seed)
    device = torch_xla.device()
    data = Keywords(hp)
    model = DSCNN(hp).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=hp.peak_lr, weight_decay=hp.weight_decay)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_factor(hp))
    report = ActivityReport(model, data.batch()[0].to(device))
    torch_xla.sync()

    running = torch.zeros((), device=device)
    model.train()
    for step in range(1, hp.steps + 1):
        x, y = data.batch()
        x, y = x.to(device), y.to(device)
        logits = model(x)
        loss = F.cross_entropy(logits, y, label_smoothing=0.05)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        running = 0.9 * running + 0.1 * (logits.argmax(-1) == y).float().mean()
        torch_xla.sync()

        if step % hp.report_interval == 0:
            active = report.collect()
            text = " ".join(f"{a:.2f}" for a in active)
            print(f"step {step:3d} loss {loss.item():.3f} acc~{running.item():.3f} active [{text}]")


if __name__ == "__main__":
    run(HParams())
