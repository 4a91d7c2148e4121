"""Physics-informed network for the viscous Burgers equation, causal weighting over time slabs.

usage: after.py OUT.hlo
"""
import math
import sys

import torch
import torch.nn as nn
import torch_xla

WIDTH, N_SLAB, PER_SLAB, N_INIT = 6, 4, 3, 5
VISCOSITY, EPS_CAUSAL = 0.01 / math.pi, 1.5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(2, WIDTH)
        self.l2 = nn.Linear(WIDTH, WIDTH)
        self.l3 = nn.Linear(WIDTH, 1)

    def forward(self, t, x):
        h = torch.stack([t, x], dim=-1)
        h = torch.tanh(self.l1(h))
        h = torch.tanh(self.l2(h))
        return self.l3(h).squeeze(-1)


def d(out, wrt):
    return torch.autograd.grad(out.sum(), wrt, create_graph=True)[0]


def residual(net, t, x):
    u = net(t, x)
    u_t = d(u, t)
    u_x = d(u, x)
    u_xx = d(u_x, x)
    return u_t + u * u_x - VISCOSITY * u_xx


def causal_loss(net, t, x):
    r = residual(net, t, x).view(N_SLAB, PER_SLAB)
    slab = r.pow(2).mean(dim=1)
    earlier = torch.cumsum(slab, dim=0) - slab
    weight = torch.exp(-EPS_CAUSAL * earlier)
    return (weight * slab).mean(), weight[-1]


def live_tensors(net, opt, extra):
    out = list(extra)
    for p in net.parameters():
        st = opt.state[p]
        out += [p, p.grad, st["exp_avg"], st["exp_avg_sq"]]
    return out


def main(path, steps=3):
    torch.manual_seed(9)
    dev = torch_xla.device()
    net = Net().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(12)
    for step in range(steps):
        slab_start = torch.arange(N_SLAB).repeat_interleave(PER_SLAB) / N_SLAB
        t = slab_start + torch.rand(N_SLAB * PER_SLAB, generator=g) / N_SLAB
        x = 2 * torch.rand(N_SLAB * PER_SLAB, generator=g) - 1
        x0 = 2 * torch.rand(N_INIT, generator=g) - 1
        t = t.to(dev).requires_grad_()
        x = x.to(dev).requires_grad_()
        x0 = x0.to(dev)

        opt.zero_grad()
        pde, last_weight = causal_loss(net, t, x)
        u0 = net(torch.zeros_like(x0), x0)
        init = (u0 + torch.sin(math.pi * x0)).pow(2).mean()
        loss = pde + 20.0 * init
        loss.backward(inputs=list(net.parameters()))
        opt.step()
        if step == steps - 1:
            tensors = live_tensors(net, opt, [loss, pde, last_weight])
            text = torch_xla._XLAC._get_xla_tensors_hlo(tensors)
            with open(path, "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, loss.item(), pde.item(), last_weight.item())


if __name__ == "__main__":
    main(sys.argv[1])
