"""Allen-Cahn, causal training: u_t - D u_xx + 5 (u^3 - u) = 0 on [-1, 1] x [0, 1].

One Adam step on a fixed (t, x) grid; the slices in time are weighted by the
residuals of all the slices before them.
"""
import math
import sys

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

NT, NX, MODES, WIDTH = 8, 16, 3, 24
D, TOL, LAMBDA_IC = 1e-4, 1.5, 100.0


class PeriodicEmbed(nn.Module):
    """x -> (1, cos k pi x, sin k pi x): periodic on [-1, 1]."""

    def __init__(self, modes):
        super().__init__()
        self.register_buffer("k", math.pi * torch.arange(1, modes + 1).float())

    def forward(self, x):
        kx = x * self.k
        return torch.cat([torch.ones_like(x), torch.cos(kx), torch.sin(kx)], dim=-1)


class PeriodicMLP(nn.Module):
    def __init__(self, modes, width, depth):
        super().__init__()
        self.embed = PeriodicEmbed(modes)
        dims = [2 * modes + 2] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:]))
        self.out = nn.Linear(width, 1)

    def forward(self, t, x):
        h = torch.cat([t, self.embed(x)], dim=-1)
        for layer in self.hidden:
            h = torch.tanh(layer(h))
        return self.out(h)


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


class CausalLoss(nn.Module):
    def __init__(self, nt, tol):
        super().__init__()
        self.tol = tol
        # row i sums the slices 0 .. i-1
        self.register_buffer("before", torch.tril(torch.ones(nt, nt), diagonal=-1))

    def slices(self, net, t, x):
        u = net(t, x)
        u_t = derivative(u, t)
        u_x = derivative(u, x)
        u_xx = derivative(u_x, x)
        res = u_t - D * u_xx + 5.0 * (u ** 3 - u)
        return res.view(NT, NX).pow(2).mean(dim=1)

    def time_weights(self, per_slice):
        # one product for all the slices, no loop over time
        return torch.exp(-self.tol * (self.before @ per_slice))

    def forward(self, net, t, x):
        per_slice = self.slices(net, t, x)
        w = self.time_weights(per_slice)
        return (w * per_slice).mean(), w.min()


def train_step(net, crit, opt, batch):
    t, x, t0, x0, u0 = batch
    t, x = t.detach().requires_grad_(), x.detach().requires_grad_()
    loss_res, w_min = crit(net, t, x)
    loss_ic = (net(t0, x0) - u0).pow(2).mean()
    loss = loss_res + LAMBDA_IC * loss_ic
    opt.zero_grad()
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    return loss.detach(), loss_ic.detach(), w_min.detach()


def live(net, opt, logs):
    out = list(net.parameters())
    for p in net.parameters():
        out += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out + list(logs)


def setup():
    torch.manual_seed(11)
    dev = torch_xla.device()
    net = PeriodicMLP(MODES, WIDTH, 2).to(dev)
    crit = CausalLoss(NT, TOL).to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    tt = torch.linspace(0.0, 1.0, NT).repeat_interleave(NX).unsqueeze(1)
    xx = torch.linspace(-1.0, 1.0, NX).repeat(NT).unsqueeze(1)
    x0 = torch.linspace(-1.0, 1.0, NX).unsqueeze(1)
    u0 = x0 ** 2 * torch.cos(math.pi * x0)
    batch = (tt.to(dev), xx.to(dev), torch.zeros_like(x0).to(dev), x0.to(dev), u0.to(dev))
    torch_xla.sync()
    return net, crit, opt, batch


def main(path):
    net, crit, opt, batch = setup()
    for it in range(4):
        logs = train_step(net, crit, opt, batch)
        if it == 3 and path:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(net, opt, logs)))
        torch_xla.sync()
        print(it, *(v.item() for v in logs))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
