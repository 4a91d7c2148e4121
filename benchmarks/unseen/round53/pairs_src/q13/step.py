"""Load forecasting: GRU encoder, autoregressive decoder, quantile loss."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch_xla

QUANTILES = (0.1, 0.5, 0.9)


class Cell(nn.Module):
    """GRU cell written out, so that it traces."""

    def __init__(self, n_in, hidden):
        super().__init__()
        self.x2h = nn.Linear(n_in, 3 * hidden)
        self.h2h = nn.Linear(hidden, 3 * hidden)

    def forward(self, x, h):
        xr, xz, xn = self.x2h(x).chunk(3, -1)
        hr, hz, hn = self.h2h(h).chunk(3, -1)
        r = torch.sigmoid(xr + hr)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1 - z) * n + z * h


class Forecaster(nn.Module):
    def __init__(self, covariates=4, hidden=32):
        super().__init__()
        self.hidden = hidden
        self.encoder = Cell(1 + covariates, hidden)
        self.decoder = Cell(1 + covariates, hidden)
        self.head = nn.Linear(hidden, len(QUANTILES))

    def forward(self, past, past_cov, future_cov, target=None, teacher_forcing=0.0):
        h = past.new_zeros(past.shape[0], self.hidden)
        for t in range(past.shape[1]):
            h = self.encoder(torch.cat([past[:, t:t + 1], past_cov[:, t]], -1), h)
        y, outputs = past[:, -1:], []
        for t in range(future_cov.shape[1]):
            h = self.decoder(torch.cat([y, future_cov[:, t]], -1), h)
            q = self.head(h)
            outputs.append(q)
            if target is not None and random.random() < teacher_forcing:
                y = target[:, t:t + 1]
            else:
                y = q[:, 1:2]
        return torch.stack(outputs, 1)


def quantile_loss(pred, target, weight):
    taus = pred.new_tensor(QUANTILES)
    err = target[..., None] - pred
    loss = torch.maximum(taus * err, (taus - 1) * err).sum(-1)
    return (loss * weight).sum() / weight.sum().clamp(min=1)


class MeterData:
    """Windows over smart-meter readings."""

    def __init__(self, n=60, past=4, horizon=4, seed=5):
        rng = np.random.default_rng(seed)
        t = np.arange(past + horizon)
        phase = rng.uniform(0, 6.28, (n, 1))
        self.load = (np.sin(t / 2 + phase) + 0.1 * rng.standard_normal((n, past + horizon))).astype(np.float32)
        self.cov = rng.standard_normal((n, past + horizon, 4)).astype(np.float32)
        self.load[37, past + 1] = np.nan
        self.past = past

    def batch(self, idx):
        load, cov = self.load[idx], self.cov[idx]
        past, target = load[:, :self.past], load[:, self.past:]
        weight = np.ones_like(target)
        missing = np.isnan(target)
        if missing.any():
            weight = np.where(missing, 0.0, 1.0)
            target = np.nan_to_num(target)
        return [torch.from_numpy(np.ascontiguousarray(a)) for a in
                (past, cov[:, :self.past], cov[:, self.past:], target, weight)]


def main():
    torch.manual_seed(0)
    random.seed(11)
    device = torch_xla.device()
    data = MeterData()
    model = Forecaster().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    steps, batch = 6, 10
    torch_xla.sync()
    for step in range(steps):
        rows = np.arange(step * batch, (step + 1) * batch) % 60
        past, past_cov, future_cov, target, weight = (b.to(device) for b in data.batch(rows))
        opt.zero_grad()
        pred = model(past, past_cov, future_cov, target, teacher_forcing=1.0 - step / 12)
        loss = quantile_loss(pred, target, weight)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
