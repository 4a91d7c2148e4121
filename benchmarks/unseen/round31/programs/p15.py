"""Physics-informed network for the viscous Burgers equation: Adam on collocation points that are refined as it goes."""
import math

import torch
import torch.nn as nn
import torch_xla

NU = 0.02
COLLOCATION = 64
BOUNDARY = 32
CANDIDATES = 96
NEW_POINTS = 8
REFINE_EVERY = 3
STEPS = 30


class Field(nn.Module):
    def __init__(self, width=12, depth=2):
        super().__init__()
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        layers.append(nn.Linear(width, 1))
        self.net = nn.Sequential(*layers)
        for m in self.net:
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=1))


def derivative(y, x):
    return torch.autograd.grad(y, x, grad_outputs=torch.ones_like(y), create_graph=True)[0]


def latin(n, generator):
    cells = torch.stack([torch.randperm(n, generator=generator) for _ in range(2)], dim=1)
    return (cells + torch.rand(n, 2, generator=generator)) / n


class BurgersProblem:
    def __init__(self, device, seed):
        g = torch.Generator().manual_seed(seed)
        inner = latin(COLLOCATION, g)
        self.x = (inner[:, :1] * 2 - 1).to(device).requires_grad_(True)
        self.t = inner[:, 1:].contiguous().to(device).requires_grad_(True)
        x0 = torch.linspace(-1, 1, BOUNDARY).unsqueeze(1)
        self.x0 = x0.to(device)
        self.t0 = torch.zeros_like(self.x0)
        self.u0 = (-torch.sin(math.pi * x0)).to(device)
        self.tb = torch.rand(BOUNDARY, 1, generator=g).to(device)
        self.left = -torch.ones(BOUNDARY, 1, device=device)
        self.right = torch.ones(BOUNDARY, 1, device=device)

    def residual(self, field, x, t):
        u = field(x, t)
        u_t = derivative(u, t)
        u_x = derivative(u, x)
        u_xx = derivative(u_x, x)
        return u_t + u * u_x - NU * u_xx

    def loss(self, field):
        pde = self.residual(field, self.x, self.t).pow(2).mean()
        start = (field(self.x0, self.t0) - self.u0).pow(2).mean()
        walls = field(self.left, self.tb).pow(2).mean() + field(self.right, self.tb).pow(2).mean()
        return pde + 5.0 * start + walls


def refine(field, problem, generator, device):
    """Residual-based adaptive refinement: spend new points where the equation is violated the most."""
    cand = latin(CANDIDATES, generator)
    x = (cand[:, :1] * 2 - 1).to(device).requires_grad_(True)
    t = cand[:, 1:].contiguous().to(device).requires_grad_(True)
    worst = problem.residual(field, x, t).detach().abs().squeeze(1).topk(NEW_POINTS).indices
    problem.x = torch.cat([problem.x, x[worst]]).detach().requires_grad_(True)
    problem.t = torch.cat([problem.t, t[worst]]).detach().requires_grad_(True)
    torch_xla.sync()


def train(field, problem, device):
    opt = torch.optim.Adam(field.parameters(), lr=5e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.98)
    generator = torch.Generator().manual_seed(4)
    for step in range(1, STEPS + 1):
        opt.zero_grad()
        problem.x.grad = problem.t.grad = None
        loss = problem.loss(field)
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        if step % REFINE_EVERY == 0:
            refine(field, problem, generator, device)
        if step % 6 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")


@torch.no_grad()
def symmetry_error(field, device):
    """The solution is odd in x, so u(x, t) + u(-x, t) measures the error without a reference."""
    x = torch.linspace(-1, 1, 41, device=device).unsqueeze(1)
    t = torch.full_like(x, 0.5)
    err = (field(x, t) + field(-x, t)).abs().max()
    torch_xla.sync()
    return err.item()


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    field = Field().to(device)
    problem = BurgersProblem(device, seed=21)
    torch_xla.sync()
    train(field, problem, device)
    print(f"asymmetry {symmetry_error(field, device):.4f}")


if __name__ == "__main__":
    main()
