# Day-ahead load forecasting with a GRU-free residual MLP, trained with our AdaBelief variant
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class AdaBelief(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-12, weight_decay=0.0, device=None):
        super().__init__(params, dict(lr=lr, eps=eps, weight_decay=weight_decay))
        self.betas = torch.tensor(betas, device=device)
        self.t = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.t += 1
        b1, b2 = self.betas[0], self.betas[1]
        bias = 1 - self.betas ** self.t
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if not st:
                    st["m"] = torch.zeros_like(p)
                    st["s"] = torch.zeros_like(p)
                g = p.grad
                if group["weight_decay"]:
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                st["m"].mul_(b1).add_(g * (1 - b1))
                diff = g - st["m"]
                st["s"].mul_(b2).add_(diff * diff * (1 - b2)).add_(group["eps"])
                denom = (st["s"] / bias[1]).sqrt().add_(group["eps"])
                p.sub_(group["lr"] * (st["m"] / bias[0]) / denom)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(x)))


class Forecaster(nn.Module):
    def __init__(self, context, horizon, d=32, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.q, self.h = quantiles, horizon
        self.inp = nn.Linear(context, d)
        self.block = Block(d)
        self.out = nn.Linear(d, horizon * len(quantiles))

    def forward(self, x):
        mu = x.mean(1, keepdim=True)
        y = self.out(self.block(torch.relu(self.inp(x - mu))))
        return y.view(-1, self.h, len(self.q)) + mu.unsqueeze(-1)


def pinball(pred, target, quantiles):
    loss = 0.0
    for i, q in enumerate(quantiles):
        e = target - pred[..., i]
        loss = loss + torch.maximum(q * e, (q - 1) * e).mean()
    return loss / len(quantiles)


def load_series(n_hours=3000, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(n_hours)
    day = np.sin(2 * np.pi * t / 24) + 0.4 * np.sin(4 * np.pi * t / 24 + 1)
    week = 0.5 * ((t // 24) % 7 < 5)
    return (day + week + 0.1 * rng.normal(size=n_hours).cumsum() / math.sqrt(n_hours) + 0.1 * rng.normal(size=n_hours)).astype(np.float32)


def windows(series, batch, context, horizon, rng):
    starts = rng.integers(0, len(series) - context - horizon, batch)
    w = np.stack([series[s:s + context + horizon] for s in starts])
    return torch.from_numpy(w[:, :context]), torch.from_numpy(w[:, context:])


if __name__ == "__main__":
    CONTEXT, HORIZON, STEPS, BATCH = 48, 24, 36, 32
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    device = torch_xla.device()
    series = load_series()
    model = Forecaster(CONTEXT, HORIZON).to(device)
    opt = AdaBelief(model.parameters(), lr=4e-3, weight_decay=1e-2, device=device)
    for step in range(STEPS):
        for group in opt.param_groups:
            group["lr"] = 4e-3 * 0.5 * (1 + math.cos(math.pi * step / (STEPS + 10)))
        x, y = windows(series, BATCH, CONTEXT, HORIZON, rng)
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        loss = pinball(model(x), y, model.q)
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        if step % 10 == 9:
            print("step", step + 1, "pinball", round(loss.item(), 4), flush=True)
