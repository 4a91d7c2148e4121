"""Physics-informed network for the viscous Burgers equation with residual-based refinement of the points."""
import math

import torch
import torch.nn as nn
import torch_xla

NU = 0.01 / math.pi
N_INTERIOR = 64
N_BOUNDARY = 24
N_INITIAL = 24
REFINE_EVERY = 5
REFINE_POOL = 96
REFINE_ADD = 8


class FourierFeatures(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("freq", torch.randn(2, n) * 1.5)

    def forward(self, xt):
        p = xt @ self.freq
        return torch.cat([torch.sin(p), torch.cos(p)], dim=1)


class BurgersNet(nn.Module):
    def __init__(self, width=20, features=8):
        super().__init__()
        self.features = FourierFeatures(features)
        self.net = nn.Sequential(
            nn.Linear(2 * features, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, 1),
        )

    def forward(self, x, t):
        return self.net(self.features(torch.cat([x, t], dim=1)))


def uniform_points(n, gen):
    x = torch.rand(n, 1, generator=gen) * 2 - 1
    t = torch.rand(n, 1, generator=gen)
    return torch.cat([x, t], dim=1)


def residual(model, points, create_graph=True):
    x = points[:, :1].detach().requires_grad_(True)
    t = points[:, 1:].detach().requires_grad_(True)
    u = model(x, t)
    ones = torch.ones_like(u)
    u_x, u_t = torch.autograd.grad(u, (x, t), ones, create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x, x, ones, create_graph=create_graph)
    return u_t + u * u_x - NU * u_xx


class Collocation:
    """Interior points; `refine` concentrates them where the equation is violated the most (RAR)."""

    def __init__(self, device, seed):
        self.device = device
        self.gen = torch.Generator().manual_seed(seed)
        self.points = uniform_points(N_INTERIOR, self.gen).to(device)

    def refine(self, model):
        pool = uniform_points(REFINE_POOL, self.gen).to(self.device)
        score = residual(model, pool, create_graph=False).detach().abs().squeeze(1)
        _, worst = torch.topk(score, REFINE_ADD)
        self.points = torch.cat([self.points, pool[worst]], dim=0)
        return score.mean()


def condition_loss(model, initial, boundary):
    u0 = model(initial[:, :1], initial[:, 1:])
    ic = (u0 + torch.sin(math.pi * initial[:, :1])).square().mean()
    ub = model(boundary[:, :1], boundary[:, 1:])
    return ic + ub.square().mean()


def main():
    torch.manual_seed(41)
    device = torch_xla.device()
    gen = torch.Generator().manual_seed(42)
    model = BurgersNet().to(device)
    interior = Collocation(device, seed=43)

    initial = uniform_points(N_INITIAL, gen)
    initial[:, 1] = 0.0
    boundary = uniform_points(N_BOUNDARY, gen)
    boundary[:, 0] = torch.sign(boundary[:, 0])
    initial, boundary = initial.to(device), boundary.to(device)

    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.985)
    torch_xla.sync()

    pool_residual = None
    for step in range(50):
        opt.zero_grad(set_to_none=True)
        pde = residual(model, interior.points).square().mean()
        cond = condition_loss(model, initial, boundary)
        loss = pde + 10.0 * cond
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()

        if (step + 1) % REFINE_EVERY == 0:
            pool_residual = interior.refine(model)
            torch_xla.sync()
        if (step + 1) % 10 == 0:
            print(
                f"step {step + 1} loss {loss.item():.4f} pde {pde.item():.4f} "
                f"pool residual {pool_residual.item():.4f} lr {sched.get_last_lr()[0]:.5f}"
            )


if __name__ == "__main__":
    main()
