"""Short-term electricity load forecasting, stateful recurrent model over consecutive windows."""
import math
import os
import time

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

FEEDERS = int(os.environ.get("FEEDERS", 12))
WINDOW = int(os.environ.get("WINDOW", 10))
DAYS = 6


def load_curves():
    g = torch.Generator().manual_seed(44)
    hours = torch.arange(DAYS * 24 + 1, dtype=torch.float32)
    phase = torch.rand(FEEDERS, 1, generator=g) * 3
    level = 1 + torch.rand(FEEDERS, 1, generator=g)
    day = torch.sin(2 * math.pi * hours / 24 + phase)
    half = 0.4 * torch.cos(4 * math.pi * hours / 24 + phase)
    noise = 0.1 * torch.randn(FEEDERS, len(hours), generator=g)
    temp = 0.5 * torch.cos(2 * math.pi * hours / 24).expand(FEEDERS, -1)
    load = level + 0.3 * (day + half) + noise
    return torch.stack([load, temp], dim=-1)


class MinimalRecurrentUnit(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.width = width
        self.gate = nn.Linear(inputs + width, width)
        self.cand = nn.Linear(inputs + width, width)

    def forward(self, seq, state):
        outs = []
        for x in seq.unbind(1):
            z = torch.sigmoid(self.gate(torch.cat([x, state], -1)))
            c = torch.tanh(self.cand(torch.cat([x, z * state], -1)))
            state = (1 - z) * state + z * c
            outs.append(state)
        return torch.stack(outs, 1), state


class Forecaster(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.rnn = MinimalRecurrentUnit(2, width)
        self.out = nn.Linear(width, 3)
        self.carry = None

    def begin_history(self):
        self.carry = None

    def forward(self, window):
        if self.carry is None:
            self.carry = window.new_zeros(window.size(0), self.rnn.width)
        hidden, last = self.rnn(window, self.carry)
        self.carry = last.detach()
        return self.out(hidden)


def pinball(pred, target, levels=(0.1, 0.5, 0.9)):
    err = target.unsqueeze(-1) - pred
    q = torch.tensor(levels, device=pred.device)
    return torch.maximum(q * err, (q - 1) * err).mean()


def windows(series):
    usable = (series.size(1) - 1) // WINDOW * WINDOW
    for s in range(0, usable, WINDOW):
        yield series[:, s:s + WINDOW], series[:, s + 1:s + WINDOW + 1, 0]


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    series = load_curves()
    net = Forecaster().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.2)
    for epoch in range(4):
        began = time.time()
        net.begin_history()
        track = []
        for window, target in windows(series):
            pred = net(window.to(device))
            loss = pinball(pred, target.to(device))
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt, barrier=True)
            track.append(loss.detach())
        mean = torch.stack(track).cpu().mean()
        print(f"epoch {epoch} pinball {mean:.4f} {time.time() - began:.1f}s "
              f"compiles {met.counter_value('UncachedCompile')}")


if __name__ == "__main__":
    main()
