"""TSMixer for multivariate load forecasting with reversible instance normalisation."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class RevIN(nn.Module):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        self.mean = x.mean(dim=1, keepdim=True).detach()
        self.std = torch.sqrt(x.var(dim=1, keepdim=True, unbiased=False) + self.eps).detach()
        return (x - self.mean) / self.std * self.weight + self.bias

    def inverse(self, y):
        y = (y - self.bias) / (self.weight + self.eps ** 2)
        y = y * self.std + self.mean
        del self.mean, self.std
        return y


class MixerLayer(nn.Module):
    def __init__(self, length, channels, hidden):
        super().__init__()
        self.time_norm = nn.LayerNorm(channels)
        self.time = nn.Linear(length, length)
        self.feat_norm = nn.LayerNorm(channels)
        self.feat_in = nn.Linear(channels, hidden)
        self.feat_out = nn.Linear(hidden, channels)

    def forward(self, x):
        h = self.time_norm(x).transpose(1, 2)
        h = F.relu(self.time(h)).transpose(1, 2)
        x = x + h
        h = F.relu(self.feat_in(self.feat_norm(x)))
        return x + self.feat_out(h)


class TSMixer(nn.Module):
    def __init__(self, length, horizon, channels, hidden, layers):
        super().__init__()
        self.revin = RevIN(channels)
        self.layers = nn.ModuleList([MixerLayer(length, channels, hidden) for _ in range(layers)])
        self.head = nn.Linear(length, horizon)

    def forward(self, x):
        x = self.revin(x)
        for layer in self.layers:
            x = layer(x)
        y = self.head(x.transpose(1, 2)).transpose(1, 2)
        return self.revin.inverse(y)


def clip_gradients(parameters, max_norm):
    parameters = [p for p in parameters if p.grad is not None]
    total = 0.0
    for p in parameters:
        total = total + (p.grad ** 2).sum()
    total = torch.sqrt(total)
    scale = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    for p in parameters:
        p.grad.mul_(scale)
    return total


def train_step(model, optimizer, past, future, max_norm):
    optimizer.zero_grad()
    pred = model(past)
    loss = F.mse_loss(pred, future)
    loss.backward()
    norm = clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    mae = (pred.detach() - future).abs().mean()
    return loss.detach(), mae, norm


def load_series(n, channels, rng):
    t = np.arange(n)[:, None]
    phase = rng.uniform(0, 2 * np.pi, channels)
    daily = np.sin(2 * np.pi * t / 24 + phase) * rng.uniform(0.5, 2.0, channels)
    return (3.0 + daily + 0.2 * rng.standard_normal((n, channels))).astype(np.float32)


def windows(series, batch_size, length, horizon, rng):
    start = rng.integers(0, len(series) - length - horizon, batch_size)
    past = np.stack([series[s:s + length] for s in start])
    future = np.stack([series[s + length:s + length + horizon] for s in start])
    return torch.from_numpy(past), torch.from_numpy(future)


def parse_args(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--length", type=int, default=24)
    ap.add_argument("--horizon", type=int, default=8)
    ap.add_argument("--channels", type=int, default=6)
    ap.add_argument("--hidden", type=int, default=16)
    ap.add_argument("--layers", type=int, default=1)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--max-norm", type=float, default=1.0)
    ap.add_argument("--steps", type=int, default=5)
    return ap.parse_args(argv)


def build(args):
    model = TSMixer(args.length, args.horizon, args.channels, args.hidden, args.layers)
    return model


def main():
    args = parse_args()
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    device = torch_xla.device()
    model = build(args).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    series = load_series(600, args.channels, rng)
    torch_xla.sync()
    for step in range(args.steps):
        past, future = windows(series, args.batch_size, args.length, args.horizon, rng)
        loss, mae, norm = train_step(model, optimizer, past.to(device), future.to(device), args.max_norm)
        torch_xla.sync()
        print(f"step {step} mse {loss.item():.5f} mae {mae.item():.5f} norm {norm.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
