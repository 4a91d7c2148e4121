"""Sequence-to-sequence forecaster (encoder/decoder GRU) for hourly load."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CONTEXT, HORIZON, FEATURES = 24, 6, 3


class LoadSeries:
    def __init__(self, hours, seed):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(hours).float()
        daily = torch.sin(2 * math.pi * t / 24)
        weekly = torch.sin(2 * math.pi * t / 168)
        self.y = daily + 0.4 * weekly + 0.1 * torch.randn(hours, generator=g)
        self.x = torch.stack([self.y, daily, weekly], -1)
        self.g = g

    def windows(self, n):
        start = torch.randint(0, len(self.y) - CONTEXT - HORIZON, (n,), generator=self.g)
        idx = start[:, None] + torch.arange(CONTEXT + HORIZON)
        return self.x[idx[:, :CONTEXT]], self.y[idx[:, CONTEXT:]]


class Encoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.proj = nn.Linear(FEATURES * 4, hidden)
        self.cell = nn.GRUCell(hidden, hidden)

    def forward(self, x):
        chunks = self.proj(x.reshape(x.shape[0], CONTEXT // 4, -1))
        h = torch.zeros(x.shape[0], self.cell.hidden_size, device=x.device)
        for t in range(chunks.shape[1]):
            h = self.cell(chunks[:, t], h)
        return h


class Decoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.inp = nn.Linear(1, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def step(self, y, h):
        h = self.cell(F.silu(self.inp(y)), h)
        return self.out(h), h


class Forecaster(nn.Module):
    def __init__(self, hidden=24, seed=0):
        super().__init__()
        self.encoder, self.decoder = Encoder(hidden), Decoder(hidden)
        self.rng = random.Random(seed)

    def forward(self, x, target=None, truth_rate=0.0):
        h = self.encoder(x)
        y = x[:, -1, :1]
        outputs = []
        for t in range(HORIZON):
            pred, h = self.decoder.step(y, h)
            outputs.append(pred)
            y = self.next_input(pred, target, t, truth_rate)
        return torch.cat(outputs, -1)

    def next_input(self, pred, target, t, truth_rate):
        if target is not None and self.rng.random() < truth_rate:
            return target[:, t:t + 1]
        return pred


def inverse_sigmoid_rate(step, k=12.0):
    return k / (k + math.exp(step / k))


def pinball(pred, target, q=0.5):
    d = target - pred
    return torch.maximum(q * d, (q - 1) * d).mean()


class Experiment:
    def __init__(self, device, steps=40, batch=16):
        self.device, self.steps, self.batch = device, steps, batch
        self.model = Forecaster().to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=4e-3)
        self.data, self.held_out = LoadSeries(2000, 1), LoadSeries(400, 2)

    def train(self):
        for step in range(self.steps):
            x, y = (t.to(self.device) for t in self.data.windows(self.batch))
            pred = self.model(x, y, inverse_sigmoid_rate(step))
            loss = pinball(pred, y)
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(self.model.parameters(), 1.0)
            self.opt.step()
            torch_xla.sync()
            if (step + 1) % 10 == 0:
                print(step + 1, f"train {loss.item():.4f} valid {self.score():.4f}")

    @torch.no_grad()
    def score(self):
        x, y = (t.to(self.device) for t in self.held_out.windows(32))
        value = (self.model(x) - y).abs().mean()
        torch_xla.sync()
        return value.item()


def main():
    torch.manual_seed(0)
    experiment = Experiment(torch_xla.device())
    torch_xla.sync()
    experiment.train()


if __name__ == "__main__":
    main()
