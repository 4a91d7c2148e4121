# Seq2seq load forecasting: MLP encoder, autoregressive RNN decoder.
# usage: python p02.py [--epochs N]
import argparse
import random

import numpy as np
import torch
from torch import nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


class LoadCurves(Dataset):
    """Synthetic hourly load: two seasonalities + trend + noise."""

    def __init__(self, n_hours=600, ctx=12, horizon=5, seed=0):
        r = np.random.RandomState(seed)
        t = np.arange(n_hours)
        y = (np.sin(2 * np.pi * t / 24) + 0.4 * np.sin(2 * np.pi * t / 168) + 0.0005 * t +
             0.1 * r.randn(n_hours))
        self.y = ((y - y.mean()) / y.std()).astype(np.float32)
        self.ctx, self.horizon = ctx, horizon

    def __len__(self):
        return (len(self.y) - self.ctx - self.horizon) // 4

    def __getitem__(self, i):
        s = i * 4
        m = s + self.ctx
        return self.y[s:m, None], self.y[m:m + self.horizon, None]


class Forecaster(nn.Module):

    def __init__(self, hidden=12):
        super().__init__()
        self.encoder = nn.Linear(12, hidden)
        self.cell = nn.RNNCell(1, hidden)
        self.head = nn.Linear(hidden, 1)

    def forward(self, ctx, target=None, horizon=5, tf_ratio=0.0):
        h = torch.tanh(self.encoder(ctx.squeeze(-1)))
        inp = ctx[:, -1]
        preds = []
        for k in range(horizon):
            h = self.cell(inp, h)
            p = self.head(h)
            preds.append(p)
            use_truth = target is not None and random.random() < tf_ratio
            inp = target[:, k] if use_truth else p
        return torch.stack(preds, dim=1)


def train_epoch(model, opt, loader, tf_ratio):
    model.train()
    loss_fn = nn.MSELoss()
    last = None
    for ctx, fut in loader:
        opt.zero_grad()
        pred = model(ctx, fut, horizon=fut.shape[1], tf_ratio=tf_ratio)
        loss = loss_fn(pred, fut)
        loss.backward()
        xm.optimizer_step(opt)
        last = loss.detach()
    return last.item()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    mae = []
    for ctx, fut in loader:
        pred = model(ctx, horizon=fut.shape[1])
        mae.append((pred - fut).abs().mean())
    return float(np.mean([m.item() for m in mae]))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--tf-start", type=float, default=0.8)
    ap.add_argument("--tf-end", type=float, default=0.3)
    args = ap.parse_args()

    random.seed(3)
    torch.manual_seed(3)
    dev = xm.xla_device()
    train = DataLoader(LoadCurves(seed=0), batch_size=args.batch_size, shuffle=True, drop_last=True)
    val = DataLoader(LoadCurves(240, seed=1), batch_size=args.batch_size, drop_last=True)
    train = pl.MpDeviceLoader(train, dev)
    val = pl.MpDeviceLoader(val, dev)

    model = Forecaster().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(args.epochs):
        frac = epoch / max(1, args.epochs - 1)
        tf = args.tf_start + frac * (args.tf_end - args.tf_start)
        tr = train_epoch(model, opt, train, tf)
        va = validate(model, val)
        print("epoch %d  tf %.2f  train mse %.4f  val mae %.4f" % (epoch, tf, tr, va))


if __name__ == "__main__":
    main()
