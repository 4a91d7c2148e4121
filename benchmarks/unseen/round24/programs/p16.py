"""Load forecasting, encoder-decoder MLP/GRU with a horizon curriculum:
the decoder is first trained on short horizons, then on the full one."""
import numpy as np
import torch
from torch import nn
import torch_xla
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

STAGES = (
    # horizon, number of updates, learning rate
    (2, 14, 4e-3),
    (4, 14, 3e-3),
    (8, 92, 2e-3),
)
CONTEXT, FULL_HORIZON, BATCH = 24, 8, 32


def make_series(n_series=24, length=400, seed=2):
    g = np.random.default_rng(seed)
    t = np.arange(length)
    daily = g.uniform(.5, 1.5, (n_series, 1)) * np.sin(2 * np.pi * (t / 24 + g.random((n_series, 1))))
    weekly = .5 * np.sin(2 * np.pi * (t / 168 + g.random((n_series, 1))))
    drift = np.cumsum(.02 * g.standard_normal((n_series, length)), 1)
    return (daily + weekly + drift + .1 * g.standard_normal((n_series, length))).astype(np.float32)


def windows(series, lo, hi, horizon, g):
    rows = g.integers(0, len(series), BATCH)
    starts = g.integers(lo, hi - CONTEXT - horizon, BATCH)
    block = np.stack([series[r, s:s + CONTEXT + horizon] for r, s in zip(rows, starts)])
    return torch.from_numpy(block[:, :CONTEXT]), torch.from_numpy(block[:, CONTEXT:])


class Forecaster(nn.Module):
    def __init__(self, hid=24):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(CONTEXT, 48), nn.GELU(), nn.Linear(48, hid), nn.LayerNorm(hid))
        self.cell = nn.GRUCell(1, hid)
        self.head = nn.Linear(hid, 1)

    def forward(self, ctx, horizon):
        mu = ctx.mean(1, keepdim=True)
        h = self.enc(ctx - mu)
        y = (ctx - mu)[:, -1:]
        out = []
        for _ in range(horizon):
            h = self.cell(y, h)
            y = y + self.head(h)
            out.append(y)
        return torch.cat(out, 1) + mu


def evaluate(model, batches):
    model.eval()
    errors = []
    with torch.no_grad():
        for ctx, fut in batches:
            errors.append((model(ctx, FULL_HORIZON) - fut).abs().mean())
            torch_xla.sync()
    return float(np.mean([e.item() for e in errors]))


def main():
    torch.manual_seed(2)
    g = np.random.default_rng(11)
    device = torch_xla.device()
    series = make_series()
    model = Forecaster().to(device)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=False)
    held_out = [tuple(t.to(device) for t in windows(series, 300, 400, FULL_HORIZON, g)) for _ in range(3)]
    opt = torch.optim.AdamW(model.parameters(), lr=STAGES[0][2])
    torch_xla.sync()
    print(f"before training: MAE {evaluate(model, held_out):.4f}")

    step = 0
    for horizon, updates, lr in STAGES:
        for group in opt.param_groups:
            group["lr"] = lr
        model.train()
        for _ in range(updates):
            ctx, fut = windows(series, 0, 300, horizon, g)
            ctx, fut = ctx.to(device), fut.to(device)
            opt.zero_grad()
            loss = nn.functional.smooth_l1_loss(model(ctx, horizon), fut)
            loss.backward()
            opt.step()
            ema.update_parameters(model)
            torch_xla.sync()
            step += 1
        print(f"horizon {horizon:2d}  step {step:3d}  train {loss.item():.4f}  "
              f"MAE {evaluate(ema.module, held_out):.4f}")


if __name__ == "__main__":
    main()
