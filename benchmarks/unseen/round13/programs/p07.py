"""Stateful recurrent forecasting of electricity-like load curves."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

SERIES = 8
WINDOW = 3
WINDOWS_PER_PASS = 6
PASSES = 4


class RMSpropMomentum:
    """RMSprop with a short linear warm-up."""

    def __init__(self, params, lr=2e-3, rho=0.95, eps=1e-6, warmup=5):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.rho, self.eps, self.warmup = lr, rho, eps, warmup
        self.square = [torch.full_like(p.data, 1e-3) for p in self.params]
        self.count = 0

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def step(self):
        self.count += 1
        lr = self.lr * min(0.99, self.count / self.warmup)
        for p, sq in zip(self.params, self.square):
            if p.grad is None:
                continue
            g = p.grad.data
            sq.mul_(self.rho).addcmul_(g, g, value=1 - self.rho)
            p.data.addcdiv_(g, sq.sqrt().add_(self.eps), value=-lr)


class Cell(nn.Module):
    def __init__(self, nin, hidden):
        super().__init__()
        self.gates = nn.Linear(nin + hidden, 2 * hidden)
        self.cand = nn.Linear(nin + hidden, hidden)

    def forward(self, x, h):
        r, z = torch.sigmoid(self.gates(torch.cat([x, h], 1))).chunk(2, 1)
        n = torch.tanh(self.cand(torch.cat([x, r * h], 1)))
        return (1 - z) * n + z * h


class Forecaster(nn.Module):
    def __init__(self, nin=3, hidden=16, layers=2):
        super().__init__()
        self.hidden = hidden
        self.cells = nn.ModuleList(Cell(nin if i == 0 else hidden, hidden) for i in range(layers))
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def initial_state(self, n, device):
        return [torch.zeros(n, self.hidden, device=device) for _ in self.cells]

    def forward(self, window, state):
        preds = []
        for t in range(window.shape[1]):
            x = window[:, t]
            new = []
            for cell, h in zip(self.cells, state):
                x = cell(x, h)
                new.append(x)
            state = new
            preds.append(self.head(x))
        return torch.cat(preds, 1), state


def load_curves(n, length, seed=0):
    gen = torch.Generator().manual_seed(seed)
    t = torch.arange(length + 1).float()
    phase = torch.rand(n, 1, generator=gen) * 2 * math.pi
    load = torch.sin(2 * math.pi * t / 24 + phase) + 0.1 * torch.randn(n, length + 1, generator=gen)
    hour = torch.stack([torch.sin(2 * math.pi * t / 24), torch.cos(2 * math.pi * t / 24)], -1)
    x = torch.cat([load[:, :-1, None], hour[None, :-1].expand(n, -1, -1)], -1)
    return x, load[:, 1:]


def main():
    torch.manual_seed(0)
    device = xm.xla_device()
    x, y = load_curves(SERIES, WINDOW * WINDOWS_PER_PASS)
    model = Forecaster().to(device)
    optimizer = RMSpropMomentum(model.parameters())
    xm.mark_step()
    for epoch in range(PASSES):
        state = model.initial_state(SERIES, device)
        total = []
        for w in range(WINDOWS_PER_PASS):
            span = slice(w * WINDOW, (w + 1) * WINDOW)
            xb, yb = x[:, span].to(device), y[:, span].to(device)
            pred, state = model(xb, state)
            loss = F.smooth_l1_loss(pred, yb)
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            optimizer.step()
            xm.mark_step()
            total.append(loss.detach())
        mean = sum(v.item() for v in total) / len(total)
        print(f"pass {epoch} mean loss {mean:.4f} last {total[-1].item():.4f}")


if __name__ == "__main__":
    main()
