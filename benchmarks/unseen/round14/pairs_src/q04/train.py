"""Short-horizon vessel trajectory forecasting with percentile gradient clipping.

The clipping threshold follows the recent gradient norms (AutoClip style), so
there is no clip value to tune per dataset.
"""
import math
from collections import deque

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class PercentileClipper:
    """Clips to a percentile of the gradient norms seen recently."""

    def __init__(self, params, percentile=0.6, window=9):
        self.params = [p for p in params if p.requires_grad]
        self.percentile = percentile
        self.norms = deque(maxlen=window)

    @torch.no_grad()
    def __call__(self):
        grads = [p.grad for p in self.params if p.grad is not None]
        norm = torch.sqrt(sum((g * g).sum() for g in grads))
        self.norms.append(norm)
        threshold = torch.quantile(torch.stack(list(self.norms)), self.percentile)
        factor = torch.clamp(threshold / (norm + 1e-6), max=1.0)
        for g in grads:
            g.mul_(factor)
        return norm, threshold


class TrackEncoder(nn.Module):
    """Temporal convolutions over past positions, speeds and headings."""

    def __init__(self, features, width):
        super().__init__()
        self.inp = nn.Conv1d(features, width, 3, padding=1)
        self.mid = nn.Conv1d(width, width, 3, padding=2, dilation=2)
        self.attn = nn.Linear(width, 1)

    def forward(self, past):
        h = torch.tanh(self.inp(past.transpose(1, 2)))
        h = (h + torch.tanh(self.mid(h))).transpose(1, 2)
        w = torch.softmax(self.attn(h), dim=1)
        return (w * h).sum(dim=1)


class Forecaster(nn.Module):
    def __init__(self, features=5, width=20, horizon=6):
        super().__init__()
        self.encoder = TrackEncoder(features, width)
        self.horizon = horizon
        self.fc = nn.Linear(width, 2 * width)
        self.mean = nn.Linear(2 * width, 2 * horizon)
        self.log_scale = nn.Linear(2 * width, 2 * horizon)

    def forward(self, past):
        h = torch.relu(self.fc(self.encoder(past)))
        shape = (-1, self.horizon, 2)
        return self.mean(h).view(shape), self.log_scale(h).view(shape).clamp(-4.0, 2.0)


def laplace_nll(mean, log_scale, target):
    return (log_scale + math.log(2.0) + (target - mean).abs() * torch.exp(-log_scale)).mean()


def synthetic_tracks(count, past, horizon, generator):
    """Smooth random walks: position, speed and heading columns."""
    accel = 0.1 * torch.randn(count, past + horizon, 2, generator=generator)
    speed = accel.cumsum(dim=1)
    pos = speed.cumsum(dim=1)
    heading = torch.atan2(speed[..., 1], speed[..., 0]).unsqueeze(-1)
    feats = torch.cat([pos, speed, heading], dim=-1)[:, :past]
    future = pos[:, past:] - pos[:, past - 1:past]
    return feats, future


def main(steps=24, batch_size=16, past=12, horizon=6, seed=23):
    torch.manual_seed(seed)
    gen = torch.Generator().manual_seed(seed)
    device = xm.xla_device()
    feats, future = synthetic_tracks(256, past, horizon, gen)

    model = Forecaster(horizon=horizon).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    clipper = PercentileClipper(model.parameters())

    for step in range(steps):
        pick = torch.randperm(feats.size(0), generator=gen)[:batch_size]
        x, y = feats[pick].to(device), future[pick].to(device)
        mean, log_scale = model(x)
        loss = laplace_nll(mean, log_scale, y)
        optimizer.zero_grad()
        loss.backward()
        norm, threshold = clipper()
        optimizer.step()
        torch_xla.sync()
        if step % 6 == 5:
            print(f"{step + 1:3d} nll={loss.item():.3f} |g|={norm.item():.3f} thr={threshold.item():.3f}")


if __name__ == "__main__":
    main()
