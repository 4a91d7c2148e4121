"""Physics-informed network for the viscous Burgers equation.

u_t + u u_x = (0.01 / pi) u_xx on x in [-1, 1], t in [0, 1],
u(x, 0) = -sin(pi x), u(-1, t) = u(1, t) = 0, with residual-based refinement
of the collocation set.
"""
import math

import torch
import torch.nn as nn
import torch_xla

NU = 0.01 / math.pi
N_INTERIOR = 128
N_BOUNDARY = 32
N_INITIAL = 64
CANDIDATES = 512
REFINE_EVERY = 7
REFINE_TOPK = 16
STEPS = 63


class PINN(nn.Module):
    def __init__(self, width=24, depth=3):
        super().__init__()
        dims = [2] + [width] * depth
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:]))
        self.out = nn.Linear(width, 1)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, xt):
        h = xt
        for layer in self.layers:
            h = torch.tanh(layer(h))
        return self.out(h)


def sample_domain(n, gen):
    x = 2 * torch.rand(n, 1, generator=gen) - 1
    t = torch.rand(n, 1, generator=gen)
    return torch.cat([x, t], dim=1)


def sample_initial(n, gen):
    x = 2 * torch.rand(n, 1, generator=gen) - 1
    return torch.cat([x, torch.zeros_like(x)], 1), -torch.sin(math.pi * x)


def sample_boundary(n, gen):
    side = torch.where(torch.rand(n, 1, generator=gen) < 0.5, -1.0, 1.0)
    return torch.cat([side, torch.rand(n, 1, generator=gen)], 1)


def residual(model, xt):
    xt = xt.detach().requires_grad_(True)
    u = model(xt)
    du = torch.autograd.grad(u.sum(), xt, create_graph=True)[0]
    u_x, u_t = du[:, :1], du[:, 1:]
    u_xx = torch.autograd.grad(u_x.sum(), xt, create_graph=True)[0][:, :1]
    return u_t + u * u_x - NU * u_xx


class CollocationSet:
    def __init__(self, n, gen, device):
        self.gen = gen
        self.device = device
        self.points = sample_domain(n, gen).to(device)

    def refine(self, model, topk):
        cand = sample_domain(CANDIDATES, self.gen).to(self.device)
        score = residual(model, cand).detach().abs().squeeze(1)
        worst = torch.topk(score, topk).indices
        self.points = torch.cat([self.points, cand[worst]], dim=0)
        torch_xla.sync()
        return score.max()


def main():
    torch.manual_seed(1234)
    gen = torch.Generator().manual_seed(99)
    device = torch_xla.device()

    model = PINN().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=STEPS)
    interior = CollocationSet(N_INTERIOR, gen, device)
    init_xt, init_u = (z.to(device) for z in sample_initial(N_INITIAL, gen))
    edge_xt = sample_boundary(N_BOUNDARY, gen).to(device)

    for step in range(1, STEPS + 1):
        opt.zero_grad()
        loss_pde = residual(model, interior.points).square().mean()
        loss_ic = (model(init_xt) - init_u).square().mean()
        loss_bc = model(edge_xt).square().mean()
        loss = loss_pde + 10.0 * loss_ic + 5.0 * loss_bc
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()

        if step % REFINE_EVERY == 0:
            peak = interior.refine(model, REFINE_TOPK)
            print(
                f"step {step:3d} pde {loss_pde.item():.3e} ic {loss_ic.item():.3e} "
                f"bc {loss_bc.item():.3e} peak residual {peak.item():.2f}"
            )


if __name__ == "__main__":
    main()
