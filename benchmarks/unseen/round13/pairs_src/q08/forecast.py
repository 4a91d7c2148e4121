# N-BEATS-like forecaster, samples re-weighted after each epoch by their residuals
import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

LOOKBACK, HORIZON = 20, 5
N_SERIES, BATCH, EPOCHS = 64, 16, 4

rng = np.random.default_rng(8)
torch.manual_seed(8)


def build_windows():
    t = np.arange(LOOKBACK + HORIZON)
    phase = rng.uniform(0, 6.28, size=(N_SERIES, 1))
    period = rng.uniform(6, 12, size=(N_SERIES, 1))
    series = np.sin(2 * np.pi * t / period + phase) + 0.1 * rng.standard_normal((N_SERIES, len(t)))
    series = series.astype(np.float32)
    return series[:, :LOOKBACK], series[:, LOOKBACK:]


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(LOOKBACK, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.backcast = nn.Linear(width, LOOKBACK)
        self.forecast = nn.Linear(width, HORIZON)

    def forward(self, x):
        h = self.fc(x)
        return self.backcast(h), self.forecast(h)


class NBeats(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(blocks)])

    def forward(self, x):
        out = 0
        for block in self.blocks:
            back, fore = block(x)
            x = x - back
            out = out + fore
        return out


class SampleWeights:
    """Keeps one weight per series, normalised to mean one."""

    def __init__(self, n, power=0.5):
        self.w = np.ones(n, dtype=np.float32)
        self.power = power
        self.resid = np.zeros(n)

    def record(self, idx, err):
        self.resid[idx] = err

    def refresh(self):
        w = (self.resid + 1e-3) ** self.power
        self.w = w / w.mean()

    def __getitem__(self, idx):
        return torch.from_numpy(self.w[idx])


def weighted_mae(pred, target, w):
    err = (pred - target).abs().mean(dim=1)
    return (err * w).mean(), err.detach()


def fit():
    device = xm.xla_device()
    hist, future = build_windows()
    model = NBeats().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS, eta_min=5e-3)
    weights = SampleWeights(N_SERIES)
    for epoch in range(EPOCHS):
        order = rng.permutation(N_SERIES)
        seen = []
        for start in range(0, N_SERIES, BATCH):
            idx = order[start:start + BATCH]
            x = torch.from_numpy(hist[idx]).to(device)
            y = torch.from_numpy(future[idx]).to(device)
            w = weights[idx].to(device)
            opt.zero_grad()
            loss, err = weighted_mae(model(x), y, w)
            loss.backward()
            opt.step()
            torch_xla.sync()
            seen.append((idx, err))
        for idx, err in seen:
            weights.record(idx, err.cpu().numpy())
        weights.refresh()
        sched.step()
        print(f"epoch {epoch} loss {loss.item():.4f} max weight {weights.w.max():.2f}")


fit()
