"""TSMixer for multivariate load forecasting with reversible instance normalisation."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch_xla


class RevIN(nn.Module):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def statistics(self, x):
        var, mean = torch.var_mean(x.detach(), dim=1, keepdim=True, correction=0)
        return mean, torch.rsqrt(var + self.eps)

    def normalize(self, x, mean, inv_std):
        return torch.addcmul(self.bias, (x - mean) * inv_std, self.weight)

    def denormalize(self, y, mean, inv_std):
        y = (y - self.bias) / (self.weight + self.eps ** 2)
        return y / inv_std + mean


def mix_time(x, linear):
    return torch.einsum("blc,tl->btc", x, linear.weight) + linear.bias.unsqueeze(-1)


class MixerLayer(nn.Module):
    def __init__(self, length, channels, hidden):
        super().__init__()
        self.time = nn.Linear(length, length)
        self.time_norm = nn.LayerNorm(channels)
        self.feat_in = nn.Linear(channels, hidden)
        self.feat_out = nn.Linear(hidden, channels)
        self.feat_norm = nn.LayerNorm(channels)

    def forward(self, x):
        x = x + mix_time(self.time_norm(x), self.time).relu()
        return x + self.feat_out(self.feat_in(self.feat_norm(x)).relu())


class TSMixer(nn.Module):
    def __init__(self, length, horizon, channels, hidden, layers):
        super().__init__()
        self.head = nn.Linear(length, horizon)
        self.layers = nn.ModuleList([MixerLayer(length, channels, hidden) for _ in range(layers)])
        self.revin = RevIN(channels)

    def forward(self, x):
        mean, inv_std = self.revin.statistics(x)
        h = self.revin.normalize(x, mean, inv_std)
        for layer in self.layers:
            h = layer(h)
        return self.revin.denormalize(mix_time(h, self.head), mean, inv_std)


def train_step(model, optimizer, past, future, max_norm):
    optimizer.zero_grad()
    pred = model(past)
    error = pred - future
    loss = error.square().mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    mae = error.detach().abs().mean()
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
