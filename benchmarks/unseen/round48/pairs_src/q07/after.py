"""Normalizing flow for calorimeter shower variables: affine couplings, conditional on the beam energy."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DIM, COND = 6, 1


class Coupling(nn.Module):
    def __init__(self, flip, hidden=12):
        super().__init__()
        self.flip = flip
        self.half = DIM // 2
        self.net = nn.Sequential(
            nn.Linear(self.half + COND, hidden),
            nn.LeakyReLU(0.1),
            nn.Linear(hidden, 2 * self.half),
        )
        self.log_cap = nn.Parameter(torch.zeros(self.half))

    def forward(self, x, cond):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        raw, shift = self.net(torch.cat([a, cond], dim=1)).chunk(2, dim=1)
        scale = torch.tanh(raw) * self.log_cap.exp()
        b = b * torch.exp(scale) + shift
        log_det = raw.sum(1)
        if self.flip:
            a, b = b, a
        return torch.cat([a, b], dim=1), log_det


class ActNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.loc = nn.Parameter(torch.randn(DIM) * 0.1)
        self.log_s = nn.Parameter(torch.randn(DIM) * 0.1)

    def forward(self, x):
        return (x - self.loc) * torch.exp(self.log_s), self.log_s.sum()


class ShowerFlow(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.norm = ActNorm()
        self.layers = nn.ModuleList(Coupling(i % 2 == 1) for i in range(depth))

    def log_prob(self, x, cond):
        z, log_det = self.norm(x)
        for layer in self.layers:
            z, ld = layer(z, cond)
            log_det = log_det + ld
        base = -0.5 * (z.pow(2) + math.log(2 * math.pi)).sum(1)
        return base + log_det


def dequantize(deposits, u):
    """Uniform noise below the read-out threshold, then logit."""
    alpha = 1e-3
    x = alpha + (1 - 2 * alpha) * (deposits * 63 + u) / 64
    jac = math.log((1 - 2 * alpha) * 63 / 64) - torch.log(x) - torch.log1p(-x)
    return torch.log(x) - torch.log1p(-x), jac.sum(1)


def train_step(model, opt, deposits, u, energy):
    opt.zero_grad(set_to_none=True)
    x, jac = dequantize(deposits, u)
    logp = model.log_prob(x, energy) + jac
    loss = -(logp / (DIM * math.log(2))).mean()
    loss.backward()
    opt.step()
    return loss.detach()


def main(out):
    torch.manual_seed(41)
    dev = torch_xla.device()
    model = ShowerFlow().to(dev)
    opt = torch.optim.Adamax(model.parameters(), lr=2e-3, foreach=False)
    for step in range(3):
        deposits = (torch.rand(10, DIM) * 63).floor().div(63).to(dev)
        u = torch.rand(10, DIM).to(dev)
        energy = torch.rand(10, COND).to(dev)
        torch_xla.sync()
        loss = train_step(model, opt, deposits, u, energy)
        live = [loss]
        for p in model.parameters():
            st = opt.state[p]
            live += [p, p.grad, st["exp_avg"], st["exp_inf"]]
        if step == 2:
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
