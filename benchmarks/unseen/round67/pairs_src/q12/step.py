"""DeepONet surrogate of a lid-driven flow, trained with a small Shampoo."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.debug.metrics as met
from torch.optim import Optimizer


def inverse_root(mat, p, iters, ridge):
    n = mat.shape[0]
    eye = torch.eye(n, device=mat.device)
    mat = mat + ridge * mat.diagonal().sum() / n * eye
    z = (1 + p) / (2 * mat.norm())
    m = mat * z
    h = eye * z**(1.0 / p)
    for _ in range(iters):
        t = ((p + 1) * eye - m) / p
        t2 = t @ t
        m = t2 @ t2 @ m
        h = h @ t
    return h


class Shampoo(Optimizer):

    def __init__(self, params, lr=0.05, momentum=0.9, beta2=0.95, every=5, iters=4, ridge=1e-3):
        super().__init__(params, dict(lr=lr, momentum=momentum, beta2=beta2, every=every, iters=iters, ridge=ridge))
        for group in self.param_groups:
            for p in group["params"]:
                st = self.state[p]
                st["mom"] = torch.zeros_like(p)
                if p.dim() == 2:
                    for side, n in (("l", p.shape[0]), ("r", p.shape[1])):
                        st[side] = torch.zeros(n, n, device=p.device)
                        st[side + "_root"] = torch.eye(n, device=p.device)
        self.t = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.t += 1
        for group in self.param_groups:
            b2 = group["beta2"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, st = p.grad, self.state[p]
                if p.dim() == 2:
                    st["l"].mul_(b2).add_(g @ g.t(), alpha=1 - b2)
                    st["r"].mul_(b2).add_(g.t() @ g, alpha=1 - b2)
                    if self.t % group["every"] == 0:
                        st["l_root"].copy_(inverse_root(st["l"], 4, group["iters"], group["ridge"]))
                        st["r_root"].copy_(inverse_root(st["r"], 4, group["iters"], group["ridge"]))
                    d = st["l_root"] @ g @ st["r_root"]
                    d = d * (g.norm() / (d.norm() + 1e-9))
                else:
                    d = g
                st["mom"].mul_(group["momentum"]).add_(d)
                p.add_(st["mom"], alpha=-group["lr"])


class DeepONet(nn.Module):

    def __init__(self, sensors=20, coords=2, width=24, basis=12):
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(sensors, width), nn.GELU(), nn.Linear(width, basis))
        self.trunk = nn.Sequential(nn.Linear(coords, width), nn.Tanh(), nn.Linear(width, basis))
        self.offset = nn.Parameter(torch.zeros(1))

    def forward(self, lid, xy):
        return torch.einsum("bk,qk->bq", self.branch(lid), self.trunk(xy)) + self.offset


def make_batch(gen, xy, n, sensors):
    amp = torch.rand(n, 3, generator=gen)
    s = torch.linspace(0, 1, sensors)
    lid = sum(amp[:, k:k + 1] * torch.sin((k + 1) * torch.pi * s) for k in range(3))
    field = sum(
        amp[:, k:k + 1] * torch.sin((k + 1) * torch.pi * xy[:, 0]) * torch.exp(-(k + 1) * (1 - xy[:, 1]))
        for k in range(3))
    return lid, field


def train(steps=13, batch=16, points=30, sensors=20):
    gen = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    dev = torch_xla.device()
    net = DeepONet(sensors).to(dev)
    opt = Shampoo(net.parameters(), lr=0.02)
    xy_host = torch.rand(points, 2, generator=gen)
    xy = xy_host.to(dev)
    torch_xla.sync()
    for i in range(steps):
        lid, field = (t.to(dev) for t in make_batch(gen, xy_host, batch, sensors))
        opt.zero_grad()
        err = net(lid, xy) - field
        loss = (err.pow(2).sum(1) / field.pow(2).sum(1)).mean()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, round(loss.item(), 5), met.counter_value("UncachedCompile"))


if __name__ == "__main__":
    train()
