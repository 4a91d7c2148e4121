"""Deep ensemble for a regression with uncertainty; every member has its own width and optimizer.
The members are visited in random order so that none always sees the freshest cache."""
import os
import random

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm

MEMBERS = {"narrow": 16, "mid": 24, "wide": 40}
SHUFFLE = os.environ.get("FIXED_ORDER", "0") != "1"


def make(width):
    return nn.Sequential(nn.Linear(6, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))


def nll(out, y):
    mu, logvar = out[:, 0], out[:, 1]
    return (0.5 * (logvar + (y - mu) ** 2 * torch.exp(-logvar))).mean()


def run(steps=8, seed=5):
    random.seed(seed)
    torch.manual_seed(seed)
    device = xm.xla_device()
    nets = {k: make(w).to(device) for k, w in MEMBERS.items()}
    opts = {k: torch.optim.Adam(n.parameters(), lr=2e-3) for k, n in nets.items()}
    xm.mark_step()
    x = torch.randn(steps, 32, 6)
    y = x[:, :, 0] * 2 + torch.sin(x[:, :, 1])
    order = list(MEMBERS)
    for s in range(steps):
        xb, yb = x[s].to(device), y[s].to(device)
        if SHUFFLE:
            random.shuffle(order)
        losses = {}
        for name in order:
            opts[name].zero_grad(set_to_none=True)
            losses[name] = nll(nets[name](xb), yb)
            losses[name].backward()
            opts[name].step()
        xm.mark_step()
    print({k: round(v.item(), 5) for k, v in sorted(losses.items())})


if __name__ == "__main__":
    run()
