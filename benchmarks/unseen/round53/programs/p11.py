"""Physics-informed network for the viscous Burgers equation.

    u_t + u u_x = nu u_xx,   u(x, 0) = -sin(pi x),   u(+-1, t) = 0

Collocation points are refined where the residual is large (RAR).
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    width: int = 16
    depth: int = 2
    n_interior: int = 256
    n_boundary: int = 32
    n_initial: int = 64
    n_candidates: int = 128
    refine_every: int = 2
    refine_points: int = 8
    steps: int = 18
    lr: float = 2e-3
    nu: float = 0.01 / math.pi
    log_every: int = 6
    seed: int = 11


class FourierMLP(nn.Module):
    def __init__(self, width, depth, n_freq=6):
        super().__init__()
        self.register_buffer("freq", torch.randn(2, n_freq))
        layers, d = [], 2 + 2 * n_freq
        for _ in range(depth):
            layers += [nn.Linear(d, width), nn.Tanh()]
            d = width
        layers.append(nn.Linear(d, 1))
        self.net = nn.Sequential(*layers)

    def forward(self, xt):
        proj = xt @ self.freq
        feats = torch.cat([xt, torch.sin(proj), torch.cos(proj)], dim=-1)
        return self.net(feats)


def grad(out, inp):
    return torch.autograd.grad(out.sum(), inp, create_graph=True)[0]


def burgers_residual(model, xt, nu):
    xt = xt.detach().requires_grad_(True)
    u = model(xt)
    du = grad(u, xt)
    u_x, u_t = du[:, :1], du[:, 1:]
    u_xx = grad(u_x, xt)[:, :1]
    return u_t + u * u_x - nu * u_xx


def sample_domain(n, device):
    xt = torch.rand(n, 2, device=device)
    x = xt[:, :1] * 2.0 - 1.0
    return torch.cat([x, xt[:, 1:]], dim=1)


class Collocation:
    """Holds the interior points and adds new ones where the PDE is violated."""

    def __init__(self, cfg, device):
        self.cfg = cfg
        self.device = device
        self.points = sample_domain(cfg.n_interior, device)

    def refine(self, model):
        cfg = self.cfg
        candidates = sample_domain(cfg.n_candidates, self.device)
        res = burgers_residual(model, candidates, cfg.nu).detach().abs().squeeze(-1)
        worst = torch.argsort(res, descending=True)[: cfg.refine_points]
        fresh = candidates.index_select(0, worst)
        self.points = torch.cat([self.points, fresh], dim=0)

    def __len__(self):
        return self.points.shape[0]


def make_constraints(cfg, device):
    x0 = torch.linspace(-1, 1, cfg.n_initial).unsqueeze(1)
    init = torch.cat([x0, torch.zeros_like(x0)], dim=1)
    u_init = -torch.sin(math.pi * x0)
    t = torch.linspace(0, 1, cfg.n_boundary).unsqueeze(1)
    left = torch.cat([-torch.ones_like(t), t], dim=1)
    right = torch.cat([torch.ones_like(t), t], dim=1)
    bnd = torch.cat([left, right], dim=0)
    return init.to(device), u_init.to(device), bnd.to(device)


def train(cfg):
    torch.manual_seed(cfg.seed)
    xm.set_rng_state(cfg.seed)
    device = torch_xla.device()

    model = FourierMLP(cfg.width, cfg.depth).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=cfg.steps)
    init, u_init, bnd = make_constraints(cfg, device)
    colloc = Collocation(cfg, device)
    torch_xla.sync()

    for step in range(1, cfg.steps + 1):
        opt.zero_grad()
        loss_pde = burgers_residual(model, colloc.points, cfg.nu).pow(2).mean()
        loss_ic = (model(init) - u_init).pow(2).mean()
        loss_bc = model(bnd).pow(2).mean()
        loss = loss_pde + 10.0 * loss_ic + loss_bc
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % cfg.refine_every == 0:
            colloc.refine(model)
        torch_xla.sync()

        if step % cfg.log_every == 0:
            print(
                f"step {step:3d} loss {loss.item():.4f} pde {loss_pde.item():.4f} "
                f"ic {loss_ic.item():.4f} points {len(colloc)}"
            )
    return model


if __name__ == "__main__":
    train(Config())
