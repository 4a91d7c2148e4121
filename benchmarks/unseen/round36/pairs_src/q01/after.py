"""Inverse problem: estimate dispersion and decay of a solute plume in a column test.

    c_t + v c_x = D c_xx - k c

Network gives c(x, t); D and k are learned together with it from a few probes.
"""
import argparse

import torch
import torch.nn as nn
import torch_xla
from torch_xla import _XLAC


class FourierTrunk(nn.Module):
    def __init__(self, modes=4, width=16, depth=2):
        super().__init__()
        self.register_buffer("freqs", torch.randn(2, modes) * 1.5)
        self.inp = nn.Linear(2 * modes, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth - 1))
        self.out = nn.Linear(width, 1)

    def forward(self, x, t):
        z = torch.cat([x, t], dim=1) @ self.freqs
        h = torch.tanh(self.inp(torch.cat([torch.sin(z), torch.cos(z)], dim=1)))
        for layer in self.hidden:
            h = h + torch.tanh(layer(h))
        return self.out(h)


class ColumnModel(nn.Module):
    def __init__(self, velocity=0.8):
        super().__init__()
        self.trunk = FourierTrunk()
        self.velocity = velocity
        self.log_disp = nn.Parameter(torch.tensor(-3.0))
        self.log_decay = nn.Parameter(torch.tensor(-2.0))

    def concentration(self, x, t):
        return self.trunk(x, t)

    def residual(self, x, t):
        x = x.requires_grad_(True)
        t = t.requires_grad_(True)
        c = self.concentration(x, t)
        ones = torch.ones_like(c)
        c_x, c_t = torch.autograd.grad(c, (x, t), ones, create_graph=True)
        c_xx, = torch.autograd.grad(c_x, x, ones, retain_graph=True)
        return (c_t + self.velocity * c_x
                - self.log_disp.exp() * c_xx
                + self.log_decay.exp() * c)


def sample(n, gen):
    x = torch.rand(n, 1, generator=gen)
    t = torch.rand(n, 1, generator=gen)
    return x, t


def batch(gen, device):
    xr, tr = sample(24, gen)
    x0, _ = sample(12, gen)
    _, tb = sample(12, gen)
    xp, tp = sample(8, gen)
    cp = torch.exp(-((xp - 0.8 * tp) ** 2) / 0.05)
    return [v.to(device) for v in (xr, tr, x0, tb, xp, tp, cp)]


def loss_terms(model, data):
    xr, tr, x0, tb, xp, tp, cp = data
    res = model.residual(xr, tr).pow(2).mean()
    ini = (model.concentration(x0, torch.zeros_like(x0))
           - torch.exp(-x0 ** 2 / 0.05)).pow(2).mean()
    inlet = (model.concentration(torch.zeros_like(tb), tb)
             - torch.exp(-4.0 * tb)).pow(2).mean()
    probe = (model.concentration(xp, tp) - cp).pow(2).mean()
    return res, ini, inlet, probe


def train_step(model, opt, data):
    opt.zero_grad()
    res, ini, inlet, probe = loss_terms(model, data)
    loss = res + 10.0 * ini + 5.0 * inlet + 20.0 * probe
    loss.backward()
    opt.step()
    return loss.detach()


def pending(model, opt, *extra):
    out = list(extra)
    for p in model.parameters():
        out.append(p)
        if p.grad is not None:
            out.append(p.grad)
        for _, v in sorted(opt.state.get(p, {}).items()):
            if torch.is_tensor(v) and v.device.type == "xla":
                out.append(v)
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dump")
    ap.add_argument("--steps", type=int, default=3)
    args = ap.parse_args()

    torch.manual_seed(0)
    device = torch_xla.device()
    model = ColumnModel().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    gen = torch.Generator().manual_seed(1)
    torch_xla.sync()
    for i in range(args.steps):
        loss = train_step(model, opt, batch(gen, device))
        if args.dump and i == args.steps - 1:
            with open(args.dump, "w") as f:
                f.write(_XLAC._get_xla_tensors_hlo(pending(model, opt, loss)))
        torch_xla.sync()
        print(i, loss.item(), model.log_disp.item(), model.log_decay.item())


if __name__ == "__main__":
    main()
