"""Physics-informed network for the viscous Burgers equation."""
import math

import torch
import torch.nn as nn
import torch_xla

NU = 0.01 / math.pi


class BurgersNet(nn.Module):
    def __init__(self, width=24, depth=2):
        super().__init__()
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.body = nn.Sequential(*layers)
        self.out = nn.Linear(width, 1)

    def forward(self, t, x):
        return self.out(self.body(torch.cat([t, x], dim=-1)))


def derivative(u, wrt):
    return torch.autograd.grad(u, wrt, grad_outputs=torch.ones_like(u), create_graph=True)[0]


def residual(net, t, x):
    t.requires_grad_(True)
    x.requires_grad_(True)
    u = net(t, x)
    u_t = derivative(u, t)
    u_x = derivative(u, x)
    u_xx = derivative(u_x, x)
    return u_t + u * u_x - NU * u_xx


def loss_terms(net, points):
    r = residual(net, points["t"], points["x"])
    u0 = net(torch.zeros_like(points["x0"]), points["x0"])
    ub = net(points["tb"], points["xb"])
    return {
        "pde": (r ** 2).mean(),
        "initial": ((u0 + torch.sin(math.pi * points["x0"])) ** 2).mean(),
        "boundary": (ub ** 2).mean(),
    }


def sample_points(generator, n=64, n_side=16):
    def uniform(rows, low, high):
        return low + (high - low) * torch.rand(rows, 1, generator=generator)

    return {
        "t": uniform(n, 0.0, 1.0),
        "x": uniform(n, -1.0, 1.0),
        "x0": uniform(n_side, -1.0, 1.0),
        "tb": uniform(n_side, 0.0, 1.0),
        "xb": torch.sign(uniform(n_side, -1.0, 1.0)),
    }


WEIGHTS = {"pde": 1.0, "initial": 10.0, "boundary": 10.0}


def train(net, device, steps, lr=1e-3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    for step in range(steps):
        points = {k: v.to(device) for k, v in sample_points(generator).items()}
        optimizer.zero_grad()
        terms = loss_terms(net, points)
        loss = sum(WEIGHTS[k] * v for k, v in terms.items())
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if step % 5 == 4:
            print(step, {k: round(v.item(), 5) for k, v in terms.items()})
    return net


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch_xla.device()
    train(BurgersNet().to(device), device, steps=5)
