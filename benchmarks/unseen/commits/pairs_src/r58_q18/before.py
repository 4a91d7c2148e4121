import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class MLP(nn.Module):
    def __init__(self, sizes, act):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.act = act

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = self.act(layer(x))
        return self.layers[-1](x)


class DeepONet(nn.Module):
    """u(f)(x, t) = sum_k branch_k(f) * trunk_k(x, t) + b"""

    def __init__(self, sensors=20, width=24, modes=12):
        super().__init__()
        self.branch = MLP([sensors, width, width, modes], torch.tanh)
        self.trunk = MLP([6, width, width, modes], torch.tanh)
        self.bias = nn.Parameter(torch.zeros(()))

    @staticmethod
    def features(xt):
        x, t = xt[..., :1], xt[..., 1:]
        return torch.cat([x, t, torch.sin(math.pi * x), torch.cos(math.pi * x),
                          torch.sin(2 * math.pi * x), torch.cos(2 * math.pi * x)], -1)

    def forward(self, f, xt):
        b = self.branch(f)
        tr = self.trunk(self.features(xt))
        return torch.einsum("bk,bnk->bn", b, tr) + self.bias


class HeatData:
    """Random initial conditions f = sum a_m sin(m pi x); u = sum a_m exp(-k m^2 pi^2 t) sin(m pi x)."""

    def __init__(self, sensors=20, points=24, kappa=0.05, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        self.grid = torch.linspace(0, 1, sensors)
        self.points, self.kappa = points, kappa

    def batch(self, bs):
        m = torch.arange(1, 5).float()
        a = torch.randn(bs, 4, generator=self.gen) / m
        f = torch.einsum("bm,mx->bx", a, torch.sin(math.pi * m[:, None] * self.grid))
        xt = torch.rand(bs, self.points, 2, generator=self.gen)
        x, t = xt[..., 0], xt[..., 1]
        modes = torch.sin(math.pi * m * x[..., None])
        decay = torch.exp(-self.kappa * (m * math.pi) ** 2 * t[..., None])
        u = torch.einsum("bm,bnm->bn", a, modes * decay)
        return f, xt, u


def criterion(pred, u):
    return F.mse_loss(pred, u)


def boundary_penalty(model, f, xt):
    left, right = xt.clone(), xt.clone()
    left[..., 0] = 0.0
    right[..., 0] = 1.0
    return model(f, left).pow(2).mean() + model(f, right).pow(2).mean()


def build_optimizer(model, lr=1e-3):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    return opt, torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.999)


def train(steps=4, bs=16, bc_weight=0.1, seed=0):
    torch.manual_seed(seed)
    device = torch_xla.device()
    data = HeatData()
    model = DeepONet().to(device)
    opt, sched = build_optimizer(model)
    torch_xla.sync()
    for step in range(steps):
        f, xt, u = (t.to(device) for t in data.batch(bs))
        opt.zero_grad()
        loss = criterion(model(f, xt), u) + bc_weight * boundary_penalty(model, f, xt)
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        print(f"{step:4d} {loss.item():.5f}")
    return model


if __name__ == "__main__":
    train()
