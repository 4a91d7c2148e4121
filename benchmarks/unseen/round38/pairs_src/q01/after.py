"""Conditional coupling flow for calorimeter showers (six layer energies given
the incident energy and angle), trained by maximum likelihood."""
import math
import sys

import torch
import torch.nn as nn
import torch_xla

DIM, CTX, HID = 6, 2, 16


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        y = (x - self.loc) * torch.exp(-self.log_scale)
        return y, -self.log_scale.sum()


class Coupling(nn.Module):
    def __init__(self, dim, ctx, hidden, clamp=1.9):
        super().__init__()
        self.clamp = clamp
        self.inp = nn.Linear(dim // 2 + ctx, hidden)
        self.out = nn.Linear(hidden, dim)

    def forward(self, x, ctx):
        xa, xb = x.chunk(2, dim=1)
        h = nn.functional.elu(self.inp(torch.cat([xa, ctx], dim=1)))
        s, t = self.out(h).chunk(2, dim=1)
        log_det = s.sum(dim=1)
        s = self.clamp * torch.tanh(s / self.clamp)
        yb = xb * torch.exp(s) + t
        return torch.cat([yb, xa], dim=1), log_det


class ShowerFlow(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.norms = nn.ModuleList(ActNorm(DIM) for _ in range(blocks))
        self.couplings = nn.ModuleList(Coupling(DIM, CTX, HID) for _ in range(blocks))

    def forward(self, x, ctx):
        total = torch.zeros(x.shape[0], device=x.device)
        for norm, coupling in zip(self.norms, self.couplings):
            x, ld = norm(x)
            total = total + ld
            x, ld = coupling(x, ctx)
            total = total + ld
        return x, total


def nll(flow, energies, ctx, alpha=1e-4):
    # logit transform of the layer fractions, with its own jacobian
    u = alpha + (1 - 2 * alpha) * energies
    x = torch.log(u) - torch.log1p(-u)
    jac = -(torch.log(u) + torch.log1p(-u)).sum(dim=1)
    z, log_det = flow(x, ctx)
    log_base = -0.5 * (z * z).sum(dim=1) - 0.5 * DIM * math.log(2 * math.pi)
    return -(log_base + log_det + jac).mean()


def main(path):
    dev = torch_xla.device()
    torch.manual_seed(3)
    flow = ShowerFlow().to(dev)
    opt = torch.optim.RMSprop(flow.parameters(), lr=3e-4, alpha=0.95, momentum=0.5)
    for step in range(3):
        energies = torch.rand(12, DIM).to(dev)
        ctx = torch.randn(12, CTX).to(dev)
        opt.zero_grad()
        loss = nll(flow, energies, ctx)
        loss.backward()
        opt.step()
        if step == 1:
            live = [loss.detach()]
            for p in flow.parameters():
                st = opt.state[p]
                live += [p.data, p.grad, st["square_avg"], st["momentum_buffer"]]
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
