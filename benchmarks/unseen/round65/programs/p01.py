"""Multi-task nowcasting from station records.

A dilated causal conv trunk reads the last 24 hours of a weather station; four
small heads predict temperature, dew point, wind and the chance of rain.
Conflicting gradients on the trunk are projected as in "Gradient Surgery for
Multi-Task Learning".
"""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

HOURS = 24
CHANNELS = 6
TASKS = ("temp", "dew", "wind", "rain")


class StationStream:
    """Synthetic hourly series with a daily cycle and weather noise."""

    def __init__(self, batch, seed):
        self.batch = batch
        self.gen = torch.Generator().manual_seed(seed)

    def __call__(self):
        g = self.gen
        phase = torch.rand(self.batch, 1, 1, generator=g) * 2 * math.pi
        amp = torch.rand(self.batch, CHANNELS, 1, generator=g) + 0.5
        t = torch.arange(HOURS).view(1, 1, -1) * (2 * math.pi / 24)
        x = amp * torch.sin(t + phase) + 0.2 * torch.randn(
            self.batch, CHANNELS, HOURS, generator=g)
        nxt = torch.sin(t[..., -1] + 2 * math.pi / 24 + phase[..., 0])
        y = {
            "temp": amp[:, 0] * nxt,
            "dew": amp[:, 1] * nxt - 0.3,
            "wind": amp[:, 2] * nxt.abs(),
            "rain": (amp[:, 3] * nxt > 0.4).float(),
        }
        return x, y


class CausalConv(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(width, width, 3, dilation=dilation)
        self.gate = nn.Conv1d(width, width, 1)

    def forward(self, x):
        h = self.conv(F.pad(x, (self.pad, 0)))
        return x + torch.tanh(h) * torch.sigmoid(self.gate(h))


class Nowcaster(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv1d(CHANNELS, width, 1), CausalConv(width, 2))
        self.heads = nn.ModuleDict({t: nn.Linear(width, 1) for t in TASKS})

    def forward(self, x):
        h = self.trunk(x)[..., -1]
        return {t: head(h) for t, head in self.heads.items()}


def task_losses(out, y):
    losses = []
    for t in TASKS:
        if t == "rain":
            losses.append(F.binary_cross_entropy_with_logits(out[t], y[t]))
        else:
            losses.append(F.smooth_l1_loss(out[t], y[t]))
    return losses


def flatten(grads):
    return torch.cat([g.reshape(-1) for g in grads])


class PCGrad:
    def __init__(self, optimizer, shared, private):
        self.optimizer = optimizer
        self.shared = list(shared)
        self.private = list(private)

    def _project(self, grads):
        projected = []
        for i, g in enumerate(grads):
            g = g.clone()
            others = [k for k in range(len(grads)) if k != i]
            random.shuffle(others)
            for k in others:
                ref = grads[k]
                dot = torch.dot(g, ref).clamp(max=0.0)
                g = g - dot / (ref.pow(2).sum() + 1e-12) * ref
            projected.append(g)
        return torch.stack(projected).mean(0)

    def backward(self, losses):
        grads = [flatten(torch.autograd.grad(l, self.shared, retain_graph=True))
                 for l in losses]
        heads = torch.autograd.grad(sum(losses), self.private)
        merged = self._project(grads)
        offset = 0
        for p in self.shared:
            n = p.numel()
            p.grad = merged[offset:offset + n].view_as(p)
            offset += n
        for p, g in zip(self.private, heads):
            p.grad = g

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


def main(steps=16):
    random.seed(11)
    torch.manual_seed(11)
    device = torch_xla.device()
    model = Nowcaster().to(device)
    opt = PCGrad(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
                 model.trunk.parameters(), model.heads.parameters())
    stream = StationStream(batch=32, seed=3)

    for step in range(steps):
        x, y = stream()
        x = x.to(device)
        y = {k: v.to(device) for k, v in y.items()}
        losses = task_losses(model(x), y)
        opt.backward(losses)
        opt.step()
        total = torch.stack([l.detach() for l in losses])
        xm.mark_step()
        if step % 5 == 4:
            print(step, dict(zip(TASKS, [round(v, 3) for v in total.cpu().tolist()])))


if __name__ == "__main__":
    main()
