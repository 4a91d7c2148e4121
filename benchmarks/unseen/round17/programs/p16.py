"""Arrhythmia screening from single-lead ECG beats.

Rare classes, therefore a focal loss whose focus is raised slowly; started with
the full focus the net ignores the easy beats from the beginning and diverges.
"""
import collections
import math

import torch
import torch.nn as nn
import torch_xla

SETTINGS = dict(
    steps=30,
    batch=24,
    beat_length=64,
    classes=4,
    prior=(0.85, 0.08, 0.05, 0.02),
    lr=3e-3,
    gamma_from=0.25,
    gamma_to=2.75,
    gamma_steps=24,
    log_every=5,
    check_every=10,
)


class BeatSimulator:
    def __init__(self, length, prior, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.length = length
        self.prior = torch.tensor(prior)

    def batch(self, n):
        kind = torch.multinomial(self.prior, n, replacement=True, generator=self.g)
        t = torch.linspace(-1, 1, self.length)
        width = 0.06 + 0.05 * kind.float().unsqueeze(1)
        beat = torch.exp(-t.square() / width) * (1 - 0.3 * (kind == 2).float().unsqueeze(1))
        noise = 0.15 * torch.randn(n, self.length, generator=self.g)
        return beat + noise, kind


class BeatNet(nn.Sequential):
    def __init__(self, length, classes):
        super().__init__(
            nn.Linear(length, 24),
            nn.LayerNorm(24),
            nn.SiLU(),
            nn.Linear(24, 24),
            nn.SiLU(),
            nn.Linear(24, classes),
        )


class FocalLoss(nn.Module):
    def __init__(self, class_weight, gamma):
        super().__init__()
        self.register_buffer("class_weight", class_weight)
        self.gamma = gamma

    def forward(self, logits, target):
        logp = logits.log_softmax(-1).gather(1, target.unsqueeze(1)).squeeze(1)
        miss = (1.0 - logp.exp()).clamp_min(1e-4)
        return -(self.class_weight[target] * miss.pow(self.gamma) * logp).mean()


class GammaSchedule:
    """Cosine ramp of the focus; reaches its final value and stays there."""

    def __init__(self, criterion, start, stop, steps):
        self.criterion, self.start, self.stop, self.steps = criterion, start, stop, steps

    def step(self, it):
        x = min(it / self.steps, 1.0)
        ramp = 0.5 * (1.0 - math.cos(math.pi * x))
        self.criterion.gamma = self.start + (self.stop - self.start) * ramp


class Meter:
    """Keeps what was seen on the device; reduces it when somebody asks."""

    def __init__(self):
        self.values = collections.defaultdict(list)

    def add(self, **named):
        for name, value in named.items():
            self.values[name].append(value.detach())

    def summary(self):
        return {name: torch.stack(v).mean().item() for name, v in self.values.items()}


@torch.no_grad()
def sensitivity(net, beats, kinds, classes):
    """Recall of every class over the fixed check set."""
    net.eval()
    hit = net(beats).argmax(-1) == kinds
    onehot = nn.functional.one_hot(kinds, classes).float()
    recall = (onehot * hit.float().unsqueeze(1)).sum(0) / onehot.sum(0).clamp_min(1.0)
    net.train()
    return [round(v, 3) for v in recall.tolist()]


def train(s):
    torch.manual_seed(8)
    device = torch_xla.device()
    source = BeatSimulator(s["beat_length"], s["prior"], seed=2)
    check_x, check_y = (t.to(device) for t in BeatSimulator(s["beat_length"], [0.25] * 4, seed=3).batch(96))

    net = BeatNet(s["beat_length"], s["classes"]).to(device)
    weight = torch.tensor(s["prior"]).rsqrt()
    criterion = FocalLoss(weight / weight.mean(), s["gamma_from"]).to(device)
    focus = GammaSchedule(criterion, s["gamma_from"], s["gamma_to"], s["gamma_steps"])
    opt = torch.optim.RMSprop(net.parameters(), lr=s["lr"], momentum=0.8)
    meter = Meter()

    for it in range(1, s["steps"] + 1):
        beats, kinds = (t.to(device) for t in source.batch(s["batch"]))
        focus.step(it)
        logits = net(beats)
        loss = criterion(logits, kinds)
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        meter.add(loss=loss, grad_norm=norm)
        torch_xla.sync()

        if it % s["log_every"] == 0:
            line = " ".join(f"{k}={v:.4f}" for k, v in meter.summary().items())
            print(f"it {it:3d} gamma {criterion.gamma:.2f} {line}")
        if it % s["check_every"] == 0:
            print("  sensitivity", sensitivity(net, check_x, check_y, s["classes"]))


if __name__ == "__main__":
    train(SETTINGS)
