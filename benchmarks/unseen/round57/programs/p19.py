"""Physics-informed network for the viscous Burgers equation; the loss moves from L2 towards L-infinity while it trains."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

NU = 0.05


class Mlp(nn.Module):
    def __init__(self, width=24, depth=3):
        super().__init__()
        dims = [2] + [width] * depth
        self.hidden = nn.ModuleList([nn.Linear(a, b) for a, b in zip(dims, dims[1:])])
        self.scale = nn.Parameter(torch.ones(depth))
        self.out = nn.Linear(width, 1)
        for layer in [*self.hidden, self.out]:
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, t, x):
        h = torch.stack([t, x], -1)
        for i, layer in enumerate(self.hidden):
            h = torch.tanh(self.scale[i] * layer(h))
        return self.out(h).squeeze(-1)


def burgers_residual(net, t, x):
    t, x = t.requires_grad_(True), x.requires_grad_(True)
    u = net(t, x)
    u_t, u_x = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
    u_xx, = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    return u_t + u * u_x - NU * u_xx


class CollocationSampler:
    """Residual-based resampling out of a fixed pool; always returns `n` points."""

    def __init__(self, pool, n, seed):
        self.rng = np.random.RandomState(seed)
        self.points = self.rng.uniform([0, -1], [1, 1], (pool, 2)).astype(np.float32)
        self.prob = np.full(pool, 1.0 / pool)
        self.n = n

    def refresh(self, residual):
        w = np.abs(residual)
        w = w / w.mean() + 0.5
        self.prob = w / w.sum()

    def draw(self):
        idx = self.rng.choice(len(self.points), self.n, replace=False, p=self.prob)
        return torch.from_numpy(self.points[idx])


class AnnealedLpLoss:
    """mean(|r|^p)^(1/p) with p raised from p0 to p1 over `over` steps."""

    def __init__(self, p0, p1, over):
        self.p0, self.p1, self.over = p0, p1, over
        self.p = p0

    def set_step(self, step):
        frac = min(1.0, step / self.over)
        self.p = self.p0 + (self.p1 - self.p0) * 0.5 * (1 - math.cos(math.pi * frac))

    def __call__(self, r):
        return (r.abs() + 1e-6).pow(self.p).mean().pow(1.0 / self.p)


def causal_weights(residual, t, eps):
    order = torch.bucketize(t.detach(), torch.linspace(0.125, 0.875, 7, device=t.device))
    onehot = (order.unsqueeze(-1) == torch.arange(8, device=t.device)).float()
    per_bin = (onehot * residual.detach().pow(2).unsqueeze(-1)).sum(0) / onehot.sum(0).clamp(min=1)
    before = torch.cumsum(per_bin, 0) - per_bin
    return (onehot * torch.exp(-eps * before)).sum(-1)


def initial_points(n, gen):
    x = torch.rand(n, generator=gen) * 2 - 1
    return torch.zeros(n), x, -torch.sin(math.pi * x)


def boundary_points(n, gen):
    t = torch.rand(n, generator=gen)
    return t, torch.sign(torch.rand(n, generator=gen) - 0.5)


def main():
    torch.manual_seed(19)
    gen = torch.Generator().manual_seed(20)
    device = torch_xla.device()
    net = Mlp().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    sampler = CollocationSampler(1024, 128, 18)
    pool = torch.from_numpy(sampler.points).to(device)
    lp = AnnealedLpLoss(2.0, 8.0, over=26)
    steps = 28

    for step in range(steps):
        lp.set_step(step)
        w_ic = 10.0 * 0.97 ** step + 1.0
        pts = sampler.draw().to(device)
        t0, x0, u0 = (v.to(device) for v in initial_points(48, gen))
        tb, xb = (v.to(device) for v in boundary_points(32, gen))

        t = pts[:, 0].clone()
        res = burgers_residual(net, t, pts[:, 1].clone())
        pde = lp(res * causal_weights(res, t, eps=0.5).sqrt())
        ic = (net(t0, x0) - u0).pow(2).mean()
        bc = net(tb, xb).pow(2).mean()
        loss = pde + w_ic * ic + bc

        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        for group in opt.param_groups:
            group["lr"] *= 0.985
        torch_xla.sync()

        if step % 7 == 6:
            r = burgers_residual(net, pool[:, 0].clone(), pool[:, 1].clone()).detach()
            torch_xla.sync()
            sampler.refresh(r.cpu().numpy())
            xm.master_print(f"step {step + 1} pde {pde.item():.4f} ic {ic.item():.4f} bc {bc.item():.4f} "
                            f"max residual {r.abs().max().item():.3f}")


if __name__ == "__main__":
    main()
