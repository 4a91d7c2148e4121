"""Physics-informed network for viscous traffic flow (Burgers' form) with initial data and periodic walls."""
import sys

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

NU = 0.01


class Field(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.l1 = nn.Linear(2, width)
        self.l2 = nn.Linear(width, width)
        self.l3 = nn.Linear(width, 1)
        self.slope = nn.Parameter(torch.ones(2))

    def forward(self, t, x):
        h = torch.stack([t, x], dim=-1)
        h = torch.tanh(self.slope[0] * self.l1(h))
        h = torch.tanh(self.slope[1] * self.l2(h))
        return self.l3(h).squeeze(-1)


def grad(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def residual(net, t, x):
    u = net(t, x)
    u_t = grad(u, t)
    u_x = grad(u, x)
    u_xx = grad(u_x, x)
    speed = u.detach()
    return u_t + speed * u_x - NU * u_xx


def loss_fn(net, t, x, x0, tb):
    res = residual(net, t, x)
    start = net(torch.zeros_like(x0), x0) + torch.sin(torch.pi * x0)
    wall = net(tb, -torch.ones_like(tb)) - net(tb, torch.ones_like(tb))
    return res.pow(2).mean() + 10.0 * start.pow(2).mean() + wall.pow(2).mean()


def points(gen):
    t = torch.rand(24, generator=gen)
    x = torch.rand(24, generator=gen) * 2 - 1
    x0 = torch.rand(12, generator=gen) * 2 - 1
    tb = torch.rand(8, generator=gen)
    return [p.to("xla") for p in (t, x, x0, tb)]


def main(path):
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(32)
    net = Field().to("xla")
    params = list(net.parameters())
    opt = torch.optim.RMSprop(params, lr=1e-3, alpha=0.95)
    for step in range(4):
        t, x, x0, tb = points(gen)
        t.requires_grad_(True)
        x.requires_grad_(True)
        torch_xla.sync()
        opt.zero_grad()
        loss = loss_fn(net, t, x, x0, tb)
        loss.backward()
        opt.step()
        if step == 3:
            live = [loss.detach()] + params
            for p in params:
                live.append(opt.state[p]["square_avg"])
            open(path, "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, "%.6f" % loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
