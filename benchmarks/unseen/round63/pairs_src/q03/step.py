"""Day-ahead load forecast: causal convolutions, attention, GRU-cell decoder; meters come as one frame per district."""
import random

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch_xla

HISTORY, HORIZON, BATCH = 12, 3, 16
QUANTILES = (0.1, 0.5, 0.9)


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query = nn.Linear(dim, dim, bias=False)

    def forward(self, h, memory):
        w = torch.bmm(memory, self.query(h).unsqueeze(-1)).softmax(1)
        return (w * memory).sum(1)


class Encoder(nn.Module):
    def __init__(self, features, dim):
        super().__init__()
        self.near = nn.Conv1d(features, dim, 3)
        self.far = nn.Conv1d(dim, dim, 3, dilation=2)

    def forward(self, x):
        h = torch.relu(self.near(nn.functional.pad(x.transpose(1, 2), (2, 0))))
        h = torch.relu(self.far(nn.functional.pad(h, (4, 0)))).transpose(1, 2)
        return h, h[:, -1]


class Forecaster(nn.Module):
    def __init__(self, features=3, dim=16, sampling=0.5):
        super().__init__()
        self.sampling = sampling
        self.encoder = Encoder(features, dim)
        self.attend = Attention(dim)
        self.cell = nn.GRUCell(1 + dim, dim)
        self.out = nn.Linear(2 * dim, len(QUANTILES))

    def forward(self, history, last, target=None):
        memory, h = self.encoder(history)
        step_in, preds = last, []
        for t in range(HORIZON):
            context = self.attend(h, memory)
            h = self.cell(torch.cat([step_in, context], -1), h)
            q = self.out(torch.cat([h, context], -1))
            preds.append(q)
            if target is not None and random.random() < self.sampling:
                step_in = target[:, t].unsqueeze(-1).to(q.dtype)
            else:
                step_in = q[:, 1:2]
        return torch.stack(preds, 1)


def pinball(pred, target, weight):
    total = 0.0
    for i, q in enumerate(QUANTILES):
        e = target - pred[..., i]
        total = total + (torch.maximum(q * e, (q - 1) * e) * weight).sum()
    return total / weight.sum().clamp(min=1.0)


def read_district(k):
    rng = np.random.default_rng(k)
    n = 400
    hour = np.arange(n) % 24
    load = 1.0 + 0.4 * np.sin(hour / 24 * 2 * np.pi) + 0.05 * rng.standard_normal(n)
    frame = pd.DataFrame({"load": load, "temp": rng.normal(12, 4, n), "hour": hour}).astype("float32")
    if k % 3 == 2:
        gaps = rng.choice(n, 12, replace=False)
        frame.loc[gaps, "load"] = np.nan
    return frame


def windows(frame, seed):
    load = frame["load"]
    weight = load.notna().to_numpy(dtype=np.float32)
    if load.isna().any():
        typical = load.groupby(frame["hour"]).transform(lambda s: float(s.mean()))
        load = pd.Series(np.where(load.isna(), typical, load), index=load.index)
    x = np.stack([load, frame["temp"] / 20, frame["hour"] / 24], -1).astype(np.float32)
    y = load.to_numpy()
    starts = np.random.default_rng(seed).integers(0, len(frame) - HISTORY - HORIZON, BATCH)
    hist = np.stack([x[s:s + HISTORY] for s in starts])
    fut = np.stack([y[s + HISTORY:s + HISTORY + HORIZON] for s in starts])
    w = np.stack([weight[s + HISTORY:s + HISTORY + HORIZON] for s in starts])
    return torch.from_numpy(hist), torch.from_numpy(fut), torch.from_numpy(w)


def main():
    torch.manual_seed(0)
    random.seed(4)
    device = torch_xla.device()
    model = Forecaster().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95)
    running = torch.zeros((), device=device)
    torch_xla.sync()
    for step in range(9):
        hist, fut, w = (t.to(device) for t in windows(read_district(step), seed=step))
        pred = model(hist, hist[:, -1, :1], fut)
        loss = pinball(pred, fut, w)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        running.lerp_(loss.detach().float(), 0.1)
        torch_xla.sync()
    print(f"pinball {running.item():.4f}")


if __name__ == "__main__":
    main()
