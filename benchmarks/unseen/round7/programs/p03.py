"""Physics-informed network for u'' = -pi^2 sin(pi x) on [-1, 1], with adaptive refinement."""
import argparse
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class FourierMLP(nn.Module):
    def __init__(self, width=24, depth=3, freqs=4):
        super().__init__()
        self.register_buffer('freqs', torch.arange(1, freqs + 1).float() * math.pi / 2)
        layers = [nn.Linear(2 * freqs + 1, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        layers.append(nn.Linear(width, 1))
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        angles = x * self.freqs
        return self.net(torch.cat([x, angles.sin(), angles.cos()], dim=-1))


def residual(model, x):
    x = x.detach().requires_grad_(True)
    u = model(x)
    du, = torch.autograd.grad(u.sum(), x, create_graph=True)
    ddu, = torch.autograd.grad(du.sum(), x, create_graph=True)
    return ddu + math.pi ** 2 * torch.sin(math.pi * x)


class PoissonProblem:
    def __init__(self, n_points, device, seed):
        g = torch.Generator().manual_seed(seed)
        self.generator = g
        self.device = device
        self.points = (2 * torch.rand(n_points, 1, generator=g) - 1).to(device)
        self.boundary = torch.tensor([[-1.0], [1.0]], device=device)

    def candidates(self, n):
        return (2 * torch.rand(n, 1, generator=self.generator) - 1).to(self.device)

    def refine(self, model, pool=128, keep=8):
        """Adds the candidates with the largest residual to the collocation points."""
        cand = self.candidates(pool)
        worst = residual(model, cand).detach().abs().squeeze(-1).topk(keep).indices
        self.points = torch.cat([self.points, cand[worst]])
        xm.mark_step()

    def loss(self, model):
        interior = residual(model, self.points).square().mean()
        edge = model(self.boundary).square().mean()
        return interior, edge


def relative_error(model, device):
    x = torch.linspace(-1, 1, 65).unsqueeze(-1)
    with torch.no_grad():
        u = model(x.to(device)).cpu()
    exact = torch.sin(math.pi * x)
    return ((u - exact).norm() / exact.norm()).item()


def fit(args):
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    model = FourierMLP().to(device)
    problem = PoissonProblem(args.points, device, args.seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.99))
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.98)
    history = []
    for step in range(1, args.steps + 1):
        optimizer.zero_grad(set_to_none=True)
        interior, edge = problem.loss(model)
        (interior + args.edge_weight * edge).backward()
        optimizer.step()
        xm.mark_step()
        decay.step()
        if step % args.refine_every == 0:
            problem.refine(model)
        if step % args.log_every == 0:
            history.append((step, interior.item(), edge.item()))
            print('step %d residual %.4f boundary %.4f' % history[-1])
    print(f'relative error {relative_error(model, device):.4f}')
    return history


def parse():
    p = argparse.ArgumentParser()
    p.add_argument('--steps', type=int, default=42)
    p.add_argument('--points', type=int, default=48)
    p.add_argument('--refine-every', type=int, default=5)
    p.add_argument('--log-every', type=int, default=14)
    p.add_argument('--edge-weight', type=float, default=10.0)
    p.add_argument('--lr', type=float, default=3e-3)
    p.add_argument('--seed', type=int, default=0)
    return p.parse_args()


if __name__ == '__main__':
    fit(parse())
