"""PINN for the viscous Burgers equation: Adam warm-up, then L-BFGS refinement."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla

NU = 0.01 / math.pi


class FourierMLP(nn.Module):
    def __init__(self, width=10, depth=1, n_freq=3):
        super().__init__()
        self.register_buffer("freq", math.pi * torch.arange(1, n_freq + 1, dtype=torch.float32))
        dims = [1 + 2 * n_freq] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:]))
        self.out = nn.Linear(width, 1)
        for layer in self.hidden:
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x, t):
        phase = x * self.freq
        h = torch.cat([t, torch.sin(phase), torch.cos(phase)], dim=1)
        for layer in self.hidden:
            h = torch.tanh(layer(h))
        return self.out(h)


def latin_hypercube(n, seed):
    rng = np.random.default_rng(seed)
    pts = np.stack([(rng.permutation(n) + rng.random(n)) / n for _ in range(2)], axis=1)
    x = torch.tensor(2 * pts[:, :1] - 1, dtype=torch.float32)
    t = torch.tensor(pts[:, 1:], dtype=torch.float32)
    return x, t


class Burgers:
    """Collocation, initial and boundary residuals on x in [-1, 1], t in [0, 1]."""

    def __init__(self, model, device, n_col=128, n_ic=32, n_bc=16):
        self.model = model
        x, t = latin_hypercube(n_col, seed=4)
        self.x = x.to(device).requires_grad_(True)
        self.t = t.to(device).requires_grad_(True)
        xi = torch.linspace(-1, 1, n_ic).unsqueeze(1)
        self.x_ic = xi.to(device)
        self.t_ic = torch.zeros_like(xi).to(device)
        self.u_ic = (-torch.sin(math.pi * xi)).to(device)
        tb = torch.linspace(0, 1, n_bc).unsqueeze(1)
        self.t_bc = torch.cat([tb, tb]).to(device)
        self.x_bc = torch.cat([-torch.ones_like(tb), torch.ones_like(tb)]).to(device)

    def residual(self):
        u = self.model(self.x, self.t)
        u_x, u_t = torch.autograd.grad(u.sum(), (self.x, self.t), create_graph=True)
        u_xx, = torch.autograd.grad(u_x.sum(), self.x, create_graph=True)
        return u_t + u * u_x - NU * u_xx

    def loss(self, w_ic=10.0, w_bc=5.0):
        pde = self.residual().square().mean()
        ic = (self.model(self.x_ic, self.t_ic) - self.u_ic).square().mean()
        bc = self.model(self.x_bc, self.t_bc).square().mean()
        return pde + w_ic * ic + w_bc * bc


def adam_phase(problem, params, steps, lr=5e-3):
    opt = torch.optim.Adam(params, lr=lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.97)
    for step in range(steps):
        opt.zero_grad(set_to_none=True)
        loss = problem.loss()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        if step % 5 == 0:
            print(f"adam  {step:3d}  loss {loss.item():.5f}")


def lbfgs_phase(problem, params, rounds, inner=1, lr=0.5):
    opt = torch.optim.LBFGS(params, lr=lr, max_iter=inner, tolerance_grad=1e-9,
                            tolerance_change=1e-12)

    def closure():
        opt.zero_grad(set_to_none=True)
        loss = problem.loss()
        loss.backward()
        return loss

    best = float("inf")
    for r in range(rounds):
        loss = opt.step(closure)
        torch_xla.sync()
        value = float(loss)
        if not math.isfinite(value):
            raise RuntimeError(f"L-BFGS diverged in round {r}")
        best = min(best, value)
        if r % 2 == 0:
            print(f"lbfgs {r:3d}  loss {value:.5f}  best {best:.5f}")
    return best


@torch.no_grad()
def shock_profile(model, device, t=0.5, n=32):
    x = torch.linspace(-1, 1, n, device=device).unsqueeze(1)
    u = model(x, torch.full_like(x, t)).squeeze(1).cpu()
    return float((u[: n // 2] + u.flip(0)[: n // 2]).abs().mean())


def main():
    torch.manual_seed(40)
    np.random.seed(40)
    device = torch_xla.device()
    model = FourierMLP().to(device)
    problem = Burgers(model, device)
    params = list(model.parameters())

    adam_phase(problem, params, steps=8)
    best = lbfgs_phase(problem, params, rounds=9)
    print(f"best loss {best:.5f}, odd-symmetry defect {shock_profile(model, device):.4f}")


if __name__ == "__main__":
    main()
