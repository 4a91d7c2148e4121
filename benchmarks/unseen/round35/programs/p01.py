"""Prequential (test-then-train) forecasting of feeder loads with a small patch forecaster."""
import argparse
import math
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()


def simulate_feeders(num_feeders, hours, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    daily = rng.uniform(0.5, 1.5, (num_feeders, 1)) * np.sin(2 * math.pi * (t / 24 - rng.uniform(0, 1, (num_feeders, 1))))
    weekly = 0.4 * np.sin(2 * math.pi * t / 168)[None, :]
    drift = np.cumsum(rng.normal(0, 0.02, (num_feeders, hours)), axis=1)
    noise = rng.normal(0, 0.1, (num_feeders, hours))
    level = rng.uniform(5, 40, (num_feeders, 1))
    return (level * (1.0 + 0.2 * (daily + weekly) + 0.1 * drift + 0.05 * noise)).astype(np.float32)


class GatedResidual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.proj = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        value, gate = self.proj(self.norm(x)).chunk(2, dim=-1)
        return x + self.out(value * torch.sigmoid(gate))


class PatchForecaster(nn.Module):
    """Embeds day-part patches of the context and decodes every quantile at once."""

    def __init__(self, context, horizon, num_quantiles, patch=8, width=16):
        super().__init__()
        self.patch, self.horizon = patch, horizon
        self.embed = nn.Linear(patch, width)
        self.position = nn.Parameter(0.02 * torch.randn(context // patch, width))
        self.block = GatedResidual(width)
        self.head = nn.Linear(context // patch * width, horizon * num_quantiles)

    def forward(self, x):
        patches = x.reshape(x.shape[0], -1, self.patch)
        h = self.block(self.embed(patches) + self.position)
        return self.head(h.flatten(1)).view(x.shape[0], self.horizon, -1)


class FeederStream:
    """Replays a load history hour by hour, handing out (context, target) pairs."""

    def __init__(self, loads, context, horizon, stride):
        self.loads = loads
        self.context = context
        self.horizon = horizon
        self.stride = stride
        self.now = context

    def __iter__(self):
        while self.now + self.horizon <= self.loads.shape[1]:
            yield self.observe()
            self.now += self.stride

    def observe(self):
        past = self.loads[:, self.now - self.context : self.now]
        future = self.loads[:, self.now : self.now + self.horizon]
        return past, future


def instance_normalise(past, future):
    mean = past.mean(dim=1, keepdim=True)
    std = past.std(dim=1, keepdim=True).clamp_min(1e-3)
    return (past - mean) / std, (future - mean) / std


def pinball(pred, target, quantiles):
    err = target.unsqueeze(-1) - pred
    return torch.maximum(quantiles * err, (quantiles - 1.0) * err).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--feeders", type=int, default=24)
    parser.add_argument("--hours", type=int, default=216)
    parser.add_argument("--context", type=int, default=48)
    parser.add_argument("--horizon", type=int, default=12)
    parser.add_argument("--stride", type=int, default=6)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    loads = torch.from_numpy(simulate_feeders(args.feeders, args.hours, args.seed)).to(device)
    stream = FeederStream(loads, args.context, args.horizon, args.stride)
    quantiles = torch.tensor([0.1, 0.5, 0.9]).to(device)

    model = PatchForecaster(args.context, args.horizon, quantiles.numel()).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.99)

    prequential = torch.zeros((), device=device)
    coverage = torch.zeros((), device=device)
    for step, (past, future) in enumerate(stream, start=1):
        x, y = instance_normalise(past, future)
        pred = model(x)
        loss = pinball(pred, y, quantiles)

        with torch.no_grad():
            inside = (y >= pred[..., 0]) & (y <= pred[..., 2])
            prequential = 0.95 * prequential + 0.05 * loss
            coverage = 0.95 * coverage + 0.05 * inside.float().mean()

        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        torch_xla.sync()

        if step % args.log_every == 0:
            correction = 1.0 - 0.95 ** step
            print(
                f"hour {stream.now:4d}  pinball {prequential.item() / correction:.4f}  "
                f"coverage {coverage.item() / correction:.3f}  lr {scheduler.get_last_lr()[0]:.2e}"
            )


if __name__ == "__main__":
    main()
