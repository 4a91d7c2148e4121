"""Physics-informed net for the viscous Burgers equation, with residual-based refinement (RAR)."""
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

NU = 0.05 / math.pi
STEPS = 48
N_INTERIOR, N_BOUNDARY, N_POOL = 128, 48, 256
REFINE_EVERY, REFINE_K = 7, 8


class FourierMLP(nn.Module):
    def __init__(self, width=32, depth=2, n_freq=6):
        super().__init__()
        self.register_buffer("freq", torch.randn(2, n_freq) * 1.5)
        dims = [2 + 2 * n_freq] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.out = nn.Linear(width, 1)

    def forward(self, x, t):
        xt = torch.cat([x, t], 1)
        proj = xt @ self.freq
        h = torch.cat([xt, torch.sin(proj), torch.cos(proj)], 1)
        for layer in self.hidden:
            h = torch.tanh(layer(h))
        return self.out(h)


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def burgers_residual(net, pts):
    x = pts[:, :1].clone().requires_grad_(True)
    t = pts[:, 1:].clone().requires_grad_(True)
    u = net(x, t)
    u_x, u_t = derivative(u, x), derivative(u, t)
    return u_t + u * u_x - NU * derivative(u_x, x)


class Domain:
    """Points on [-1, 1] x [0, 1]: interior, initial line and walls."""

    def __init__(self, device, gen):
        self.device, self.gen = device, gen
        self.interior = self.uniform(N_INTERIOR)
        x0 = torch.linspace(-1, 1, N_BOUNDARY)[:, None]
        self.initial = torch.cat([x0, torch.zeros_like(x0)], 1).to(device)
        self.initial_u = (-torch.sin(math.pi * x0)).to(device)
        tw = torch.linspace(0, 1, N_BOUNDARY // 2)[:, None]
        walls = [torch.cat([torch.full_like(tw, s), tw], 1) for s in (-1.0, 1.0)]
        self.walls = torch.cat(walls).to(device)

    def uniform(self, n):
        p = torch.rand(n, 2, generator=self.gen)
        p[:, 0] = p[:, 0] * 2 - 1
        return p.to(self.device)

    def refine(self, net):
        pool = self.uniform(N_POOL)
        score = burgers_residual(net, pool).detach().abs().squeeze(1)
        _, worst = score.topk(REFINE_K)
        self.interior = torch.cat([self.interior, pool[worst]])
        return score.mean()


class Weights:
    """Loss balancing from running gradient-free magnitudes (one scale per term)."""

    def __init__(self, n, device, decay=0.9):
        self.scale = torch.ones(n, device=device)
        self.decay = decay

    def __call__(self, terms):
        v = torch.stack(terms)
        self.scale = self.decay * self.scale + (1 - self.decay) * v.detach()
        w = self.scale.mean() / (self.scale + 1e-6)
        return (w.clamp(0.1, 10.0) * v).sum()


def main():
    torch.manual_seed(41)
    gen = torch.Generator().manual_seed(41)
    device = xm.xla_device()
    net = FourierMLP().to(device)
    dom = Domain(device, gen)
    balance = Weights(3, device)
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    decay = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.985)
    pool_score = torch.zeros((), device=device)
    xm.mark_step()

    for it in range(STEPS):
        opt.zero_grad()
        r = burgers_residual(net, dom.interior)
        pde = r.square().mean()
        ic = (net(dom.initial[:, :1], dom.initial[:, 1:]) - dom.initial_u).square().mean()
        bc = net(dom.walls[:, :1], dom.walls[:, 1:]).square().mean()
        loss = balance([pde, 5 * ic, bc])
        loss.backward()
        opt.step()
        decay.step()
        xm.mark_step()

        if it % REFINE_EVERY == REFINE_EVERY - 1:
            pool_score = dom.refine(net)
            xm.mark_step()
        if it % 16 == 15:
            print(f"it {it + 1} pde {pde.item():.4f} ic {ic.item():.4f} bc {bc.item():.4f} "
                  f"pool {pool_score.item():.4f}")


if __name__ == "__main__":
    main()
