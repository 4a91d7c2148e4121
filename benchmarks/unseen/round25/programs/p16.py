"""Multi-horizon load forecasting with a GRU-free temporal conv net and adaptive gradient clipping."""
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

settings = {
    "context": 48,
    "horizon": 12,
    "channels": 12,
    "batch": 16,
    "steps": 20,
    "clip_percentile": 0.3,
    "quantiles": (0.1, 0.5, 0.9),
}


def load_frame(hours=1500, seed=0):
    rng = np.random.default_rng(seed)
    idx = pd.date_range("2023-01-01", periods=hours, freq="h")
    t = np.arange(hours)
    load = (10 + 3 * np.sin(2 * np.pi * t / 24) + np.sin(2 * np.pi * t / 168)
            + 0.3 * rng.standard_normal(hours))
    df = pd.DataFrame({"load": load}, index=idx)
    df["hour"] = np.sin(2 * np.pi * idx.hour / 24)
    df["weekend"] = (idx.dayofweek >= 5).astype(float)
    df["load"] = (df["load"] - df["load"].mean()) / df["load"].std()
    return df.to_numpy(dtype=np.float32)


class WindowSampler:
    def __init__(self, values, cfg, seed=1):
        self.v, self.c = values, cfg
        self.rng = np.random.default_rng(seed)

    def next(self, device):
        L, H = self.c["context"], self.c["horizon"]
        starts = self.rng.integers(0, len(self.v) - L - H, size=self.c["batch"])
        x = np.stack([self.v[s:s + L] for s in starts])
        y = np.stack([self.v[s + L:s + L + H, 0] for s in starts])
        return torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)


class DilatedNet(nn.Module):
    def __init__(self, cfg, inputs=3):
        super().__init__()
        c = cfg["channels"]
        self.inp = nn.Conv1d(inputs, c, 1)
        self.convs = nn.ModuleList([nn.Conv1d(c, c, 3, padding=d, dilation=d) for d in (1, 3)])
        self.norm = nn.LayerNorm(c)
        self.head = nn.Linear(c, cfg["horizon"] * len(cfg["quantiles"]))
        self.shape = (cfg["horizon"], len(cfg["quantiles"]))

    def forward(self, x):
        h = self.inp(x.transpose(1, 2))
        for conv in self.convs:
            h = h + torch.relu(conv(h))
        h = self.norm(h[:, :, -1])
        return self.head(h).view(-1, *self.shape)


def pinball(pred, target, qs):
    diff = target.unsqueeze(-1) - pred
    return torch.maximum(qs * diff, (qs - 1) * diff).mean()


class AutoClip:
    """Clips to a percentile of the gradient norms seen so far; everything stays on the device."""

    def __init__(self, params, percentile):
        self.params = [p for p in params if p.requires_grad]
        self.percentile = percentile
        self.history = []

    @torch.no_grad()
    def __call__(self):
        norm = torch.stack([p.grad.norm() for p in self.params]).norm()
        self.history.append(norm)
        limit = torch.stack(self.history).quantile(self.percentile)
        coef = (limit / (norm + 1e-6)).clamp(max=1.0)
        for p in self.params:
            p.grad.mul_(coef)
        return norm, limit


def main():
    torch.manual_seed(0)
    device = xm.xla_device()
    cfg = settings
    sampler = WindowSampler(load_frame(), cfg)
    net = DilatedNet(cfg).to(device)
    qs = torch.tensor(cfg["quantiles"], device=device)
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    clip = AutoClip(net.parameters(), cfg["clip_percentile"])
    for step in range(cfg["steps"]):
        with torch_xla.step():
            x, y = sampler.next(device)
            loss = pinball(net(x), y, qs)
            opt.zero_grad()
            loss.backward()
            norm, limit = clip()
            opt.step()
        if step % 5 == 4:
            print(f"step {step + 1}: pinball {loss.item():.4f} |g| {norm.item():.3f} limit {limit.item():.3f}")


if __name__ == "__main__":
    main()
