"""Forecast the next samples of physiological recordings with a small causal TCN."""
import argparse
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

WIN, HORIZON, CHANNELS = 32, 4, 3


def recording(rng, n_windows):
    n = n_windows * WIN + HORIZON
    t = np.arange(n) / 20.0
    base = rng.uniform(0.5, 2.0, CHANNELS)[:, None]
    sig = np.sin(base * t + rng.uniform(0, 6, (CHANNELS, 1)))
    return (sig + 0.1 * rng.standard_normal((CHANNELS, n))).astype(np.float32)


def cut(rec, stride=WIN):
    xs, ys = [], []
    for s in range(0, rec.shape[1] - WIN - HORIZON + 1, stride):
        xs.append(rec[:, s : s + WIN])
        ys.append(rec[:, s + WIN : s + WIN + HORIZON])
    return np.stack(xs), np.stack(ys)


def padded_batches(x, y, size):
    for i in range(0, len(x), size):
        xb, yb = x[i : i + size], y[i : i + size]
        n = len(xb)
        w = np.zeros(size, dtype=np.float32)
        w[:n] = 1.0
        if n < size:
            xb = np.concatenate([xb, np.zeros((size - n,) + xb.shape[1:], xb.dtype)])
            yb = np.concatenate([yb, np.zeros((size - n,) + yb.shape[1:], yb.dtype)])
        yield torch.from_numpy(xb), torch.from_numpy(yb), torch.from_numpy(w)


class CausalConv(nn.Conv1d):
    def forward(self, x):
        return super().forward(F.pad(x, ((self.kernel_size[0] - 1) * self.dilation[0], 0)))


class TCN(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        layers, c = [], CHANNELS
        for d in (1, 2, 4):
            layers += [CausalConv(c, width, 3, dilation=d), nn.ReLU()]
            c = width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, CHANNELS * HORIZON)

    def forward(self, x):
        return self.head(self.body(x)[..., -1]).view(-1, CHANNELS, HORIZON)


def validate(model, patients, device, size):
    """Per-patient RMSE, as in the challenge's score sheet."""
    model.eval()
    scores = {}
    with torch.no_grad():
        for pid, rec in patients.items():
            x, y = cut(rec)
            sse = torch.zeros((), device=device)
            count = torch.zeros((), device=device)
            for xb, yb, w in padded_batches(x, y, size):
                err = (model(xb.to(device)) - yb.to(device)).pow(2).mean((1, 2))
                w = w.to(device)
                sse += (err * w).sum()
                count += w.sum()
            scores[pid] = torch.sqrt(sse / count).item()
    model.train()
    return scores


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()

    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    device = torch_xla.device()
    model = TCN().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)

    tx, ty = zip(*(cut(recording(rng, 40)) for _ in range(6)))
    ds = TensorDataset(torch.from_numpy(np.concatenate(tx)), torch.from_numpy(np.concatenate(ty)))
    loader = DataLoader(ds, batch_size=args.batch_size, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)

    for epoch in range(args.epochs):
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        # the hold-out set is refreshed from the ward's monitor every epoch
        held = {f"pt{epoch}{k}": recording(rng, int(rng.integers(20, 330))) for k in range(5)}
        scores = validate(model, held, device, args.batch_size)
        print(f"epoch {epoch} train {loss.item():.4f} rmse {np.mean(list(scores.values())):.4f}")


if __name__ == "__main__":
    main()
