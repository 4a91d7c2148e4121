"""Physics-informed network for u'' + pi^2 sin(pi x) = 0 on [-1, 1], finished with L-BFGS as in most PINN papers."""
import math

import torch
import torch.nn as nn
import torch_xla


class PINN(nn.Module):
    def __init__(self, width=20, depth=2):
        super().__init__()
        dims = [1] + [width] * depth + [1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))

    def forward(self, x):
        for lin in self.layers[:-1]:
            x = torch.tanh(lin(x))
        return self.layers[-1](x)


def residual(net, x):
    u = net(x)
    (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (ddu,) = torch.autograd.grad(du.sum(), x, create_graph=True)
    return ddu + math.pi ** 2 * torch.sin(math.pi * x)


class Problem:
    def __init__(self, device, n=40):
        self.x = torch.linspace(-1, 1, n)[:, None].to(device).requires_grad_(True)
        self.edge = torch.tensor([[-1.0], [1.0]]).to(device)
        self.truth = torch.sin(math.pi * torch.linspace(-1, 1, n)[:, None]).to(device)

    def loss(self, net):
        return residual(net, self.x).square().mean() + 10 * net(self.edge).square().mean()

    def error(self, net):
        return (net(self.x) - self.truth).abs().max()


def adam_phase(net, problem, steps):
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(steps):
        opt.zero_grad()
        loss = problem.loss(net)
        loss.backward()
        opt.step()
        torch_xla.sync()
    print(f"adam   loss {loss.item():.4f}")


def refine_phase(net, problem, steps):
    opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=1, history_size=50)

    def closure():
        opt.zero_grad()
        loss = problem.loss(net)
        loss.backward()
        return loss

    for it in range(steps):
        loss = opt.step(closure)
        torch_xla.sync()
        if it % 4 == 3:
            print(f"refine {it + 1:3d} loss {loss.item():.4f}")


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    net = PINN().to(device)
    problem = Problem(device)
    torch_xla.sync()
    adam_phase(net, problem, steps=8)
    refine_phase(net, problem, steps=12)
    err = problem.error(net)
    torch_xla.sync()
    print(f"max error {err.item():.3f}")


if __name__ == "__main__":
    main()
