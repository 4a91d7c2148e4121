"""Physics-informed network for the viscous Burgers equation: Adam first, then L-BFGS on the same collocation set."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

NU = 0.05 / math.pi


class FourierFeatures(nn.Module):
    def __init__(self, count, scale, seed):
        super().__init__()
        gen = torch.Generator().manual_seed(seed)
        self.register_buffer("proj", torch.randn(2, count, generator=gen) * scale)

    def forward(self, tx):
        z = tx @ self.proj
        return torch.cat([z.sin(), z.cos(), tx], dim=-1)


class BurgersNet(nn.Module):
    def __init__(self, width=16, features=6):
        super().__init__()
        self.features = FourierFeatures(features, 1.5, seed=2)
        self.body = nn.Sequential(
            nn.Linear(2 * features + 2, width), nn.Tanh(),
            nn.Linear(width, 1),
        )

    def forward(self, t, x):
        """The boundary and initial conditions hold by construction."""
        free = self.body(self.features(torch.cat([t, x], dim=-1)))
        return -torch.sin(math.pi * x) + t * (1 - x * x) * free


def latin_hypercube(n, rng):
    cols = [(rng.permutation(n) + rng.random(n)) / n for _ in range(2)]
    t, x = cols[0], 2 * cols[1] - 1
    return (torch.tensor(t, dtype=torch.float32).unsqueeze(1), torch.tensor(x, dtype=torch.float32).unsqueeze(1))


def residual(net, t, x):
    u = net(t, x)
    ones = torch.ones_like(u)
    u_t, u_x = torch.autograd.grad(u, (t, x), ones, create_graph=True)
    u_xx, = torch.autograd.grad(u_x, x, ones, create_graph=True)
    return u_t + u * u_x - NU * u_xx


def causal_weights(res, t, bins, eps):
    """Early time slabs weigh more until their residual is small."""
    slab = (t.detach() * bins).clamp(0, bins - 1).floor().long().squeeze(1)
    member = (slab.unsqueeze(1) == torch.arange(bins, device=t.device)).float()
    per_slab = (member * res.detach().square()).sum(0) / member.sum(0).clamp(min=1.0)
    w = torch.exp(-eps * (per_slab.cumsum(0) - per_slab))
    return member @ w.unsqueeze(1)


def physics_loss(net, t, x, eps=0.5):
    res = residual(net, t, x)
    return (causal_weights(res, t, bins=4, eps=eps) * res.square()).mean()


def conservation_error(net, device, points=65):
    """The integral of u over the domain stays zero by symmetry."""
    with torch.no_grad():
        t = torch.full((points, 1), 0.5).to(device)
        x = torch.linspace(-1, 1, points).unsqueeze(1).to(device)
        return net(t, x).mean().abs().item()


def adam_phase(net, t, x, steps):
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.97)
    for step in range(steps):
        loss = physics_loss(net, t, x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
    return loss.item()


def lbfgs_phase(net, t, x, steps):
    opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=2, history_size=50, tolerance_change=0.0)

    def closure():
        opt.zero_grad()
        loss = physics_loss(net, t, x)
        loss.backward()
        torch_xla.sync()
        return loss

    trace = []
    for step in range(steps):
        loss = opt.step(closure)
        torch_xla.sync()
        trace.append(loss.detach())
        if step % 8 == 7:
            xm.master_print(f"lbfgs {step + 1:3d}  loss {trace[-1].item():.5f}")
    return trace[-1].item()


def main():
    torch.manual_seed(8)
    device = torch_xla.device()
    net = BurgersNet().to(device)
    t, x = latin_hypercube(128, np.random.default_rng(8))
    t = t.to(device).requires_grad_(True)
    x = x.to(device).requires_grad_(True)
    torch_xla.sync()

    first = adam_phase(net, t, x, steps=20)
    xm.master_print(f"adam   loss {first:.5f}  drift {conservation_error(net, device):.5f}")
    last = lbfgs_phase(net, t, x, steps=16)
    xm.master_print(f"final  loss {last:.5f}  drift {conservation_error(net, device):.5f}")


if __name__ == "__main__":
    main()
