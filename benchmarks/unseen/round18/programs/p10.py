"""Traffic volume forecast (one hour ahead) for a set of road detectors.

Uses our in-house optimizer: momentum SGD that leaves a tensor alone for a step
when its new gradient disagrees with the direction the momentum is going.
"""
import math
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm


class AgreementSGD(Optimizer):
    """SGD with momentum and a per-tensor agreement test.

    Args:
        params: iterable of parameters.
        lr: step size.
        momentum: decay of the gradient average.
        warmup: number of steps before the test is applied.
    """

    def __init__(self, params, lr=1e-2, momentum=0.8, warmup=3):
        super().__init__(params, dict(lr=lr, momentum=momentum, warmup=warmup))
        self.steps = 0
        self.skipped = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:
                if "avg" not in self.state[p]:
                    self.state[p]["avg"] = torch.zeros_like(p)
            agree = [True] * len(params)
            if self.steps > group["warmup"]:
                dots = torch.stack([(self.state[p]["avg"] * p.grad).sum() for p in params])
                agree = [d > 0 for d in dots.tolist()]
            for p, ok in zip(params, agree):
                avg = self.state[p]["avg"]
                avg.mul_(group["momentum"]).add_(p.grad)
                if not ok:
                    self.skipped += 1
                    continue
                p.add_(avg, alpha=-group["lr"])


class DetectorNet(nn.Module):
    def __init__(self, lags, n_detectors, dim=6, hidden=24):
        super().__init__()
        self.where = nn.Embedding(n_detectors, dim)
        self.inp = nn.Linear(lags + dim + 2, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, lags, clock, det):
        h = torch.cat([lags, clock, self.where(det)], dim=-1)
        return lags[:, -1] + self.out(torch.tanh(self.inp(h))).squeeze(-1)


def build_tables(n_detectors=8, days=12, lags=6, seed=21):
    rng = np.random.default_rng(seed)
    hours = np.arange(days * 24)
    level = rng.uniform(0.5, 1.5, (n_detectors, 1))
    shape = 1 + 0.6 * np.sin(2 * np.pi * (hours - 8) / 24) + 0.3 * np.sin(4 * np.pi * hours / 24)
    vol = level * shape + 0.1 * rng.standard_normal((n_detectors, len(hours)))
    lag, clock, det, target = [], [], [], []
    for d in range(n_detectors):
        for t in range(lags, len(hours)):
            lag.append(vol[d, t - lags:t])
            clock.append([math.sin(2 * math.pi * t / 24), math.cos(2 * math.pi * t / 24)])
            det.append(d)
            target.append(vol[d, t])
    full = TensorDataset(torch.tensor(np.array(lag), dtype=torch.float32),
                         torch.tensor(clock, dtype=torch.float32), torch.tensor(det),
                         torch.tensor(target, dtype=torch.float32))
    cut = int(0.8 * len(full)) // 64 * 64
    order = rng.permutation(len(full)).tolist()
    return (torch.utils.data.Subset(full, order[:cut]),
            torch.utils.data.Subset(full, order[cut:cut + 256]))


def fit(epochs=2, batch=64):
    torch.manual_seed(2)
    device = xm.xla_device()
    train_set, valid_set = build_tables()
    loader = DataLoader(train_set, batch_size=batch, shuffle=True, drop_last=True)
    check = DataLoader(valid_set, batch_size=128)
    net = DetectorNet(6, 8).to(device)
    opt = AgreementSGD(net.parameters(), lr=0.05)
    best, best_path = float("inf"), os.path.join(tempfile.mkdtemp(), "best.pt")

    for epoch in range(epochs):
        net.train()
        for i, rows in enumerate(loader):
            lags, clock, det, target = (r.to(device) for r in rows)
            loss = nn.functional.mse_loss(net(lags, clock, det), target)
            net.zero_grad()
            loss.backward()
            opt.step()
            xm.mark_step()
            if i % 10 == 0:
                print(f"epoch {epoch} batch {i:2d} mse {loss.item():.4f} skipped {opt.skipped}")

        net.eval()
        sq = []
        with torch.no_grad():
            for rows in check:
                lags, clock, det, target = (r.to(device) for r in rows)
                sq.append((net(lags, clock, det) - target).pow(2).mean())
                xm.mark_step()
        rmse = math.sqrt(np.mean([s.item() for s in sq]))
        print(f"epoch {epoch} validation rmse {rmse:.4f}")
        if rmse < best:
            best = rmse
            xm.save(net.state_dict(), best_path)
    print(f"best rmse {best:.4f}, kept in {best_path}")


if __name__ == "__main__":
    fit()
