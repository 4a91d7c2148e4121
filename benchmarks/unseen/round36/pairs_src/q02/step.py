"""Spiking network for keyword onsets (cochlea spike trains), homeostatic firing rate.

Two LIF layers, surrogate gradient, leaky read-out. A running mean of the firing
rate of every hidden unit is pulled towards a target rate.
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch_xla import _XLAC


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).to(v.dtype)

    @staticmethod
    def backward(ctx, g):
        v, = ctx.saved_tensors
        return g / (1.0 + 10.0 * v.abs()) ** 2


class LIF(nn.Module):
    def __init__(self, n_in, n_out, leak=0.85, threshold=0.6):
        super().__init__()
        self.fc = nn.Linear(n_in, n_out)
        self.leak = leak
        self.threshold = threshold

    def forward(self, x, v):
        v = self.leak * v + self.fc(x)
        s = Spike.apply(v - self.threshold)
        return s, v - s * self.threshold


class Homeostasis:
    """Running firing rate and its penalty."""

    def __init__(self, n, device, target=0.15, momentum=0.9):
        self.target = target
        self.momentum = momentum
        self.rate = torch.full((n,), target, device=device)

    def __call__(self, counts, ticks):
        batch_rate = counts.mean(0) / ticks
        self.rate = self.momentum * self.rate + (1 - self.momentum) * batch_rate
        return (self.rate - self.target).pow(2).sum()


class KeywordSNN(nn.Module):
    def __init__(self, bands=12, hidden=20, classes=4):
        super().__init__()
        self.l1 = LIF(bands, hidden)
        self.l2 = LIF(hidden, hidden)
        self.read = nn.Linear(hidden, classes)

    def forward(self, x):
        b, ticks, _ = x.shape
        v1 = x.new_zeros(b, self.l1.fc.out_features)
        v2 = x.new_zeros(b, self.l2.fc.out_features)
        out = x.new_zeros(b, self.read.out_features)
        c1 = torch.zeros_like(v1)
        c2 = torch.zeros_like(v2)
        for t in range(ticks):
            s1, v1 = self.l1(x[:, t], v1)
            s2, v2 = self.l2(s1, v2)
            out = 0.9 * out + self.read(s2)
            c1 = c1 + s1
            c2 = c2 + s2
        return out, torch.cat([c1, c2], dim=1)


class RMSProp:
    def __init__(self, params, lr=1e-3, rho=0.95, eps=1e-6):
        self.params = list(params)
        self.lr, self.rho, self.eps = lr, rho, eps
        self.sq = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def step(self):
        for p, sq in zip(self.params, self.sq):
            g = p.grad.data
            sq.mul_(self.rho).addcmul_(g, g, value=1 - self.rho)
            p.data.addcdiv_(g, sq.sqrt() + self.eps, value=-self.lr)


def train_step(model, homeo, opt, x, y):
    opt.zero_grad()
    logits, counts = model(x)
    loss = F.cross_entropy(logits, y) + 2.0 * homeo(counts, x.shape[1])
    loss.backward(retain_graph=True)
    opt.step()
    return loss.detach()


def batch(gen, device, n=6, ticks=3, bands=12):
    x = (torch.rand(n, ticks, bands, generator=gen) < 0.4).float()
    y = torch.randint(0, 4, (n,), generator=gen)
    return x.to(device), y.to(device)


def pending(homeo, opt, *extra):
    out = list(extra)
    for p, sq in zip(opt.params, opt.sq):
        out += [p, p.grad, sq]
    out.append(homeo.rate)
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=4)
    ap.add_argument("--dump", nargs="*", default=[],
                    help="STEP=FILE, write the pending HLO of that step (from 1)")
    args = ap.parse_args()
    dump = dict(d.split("=", 1) for d in args.dump)

    torch.manual_seed(3)
    device = torch_xla.device()
    model = KeywordSNN().to(device)
    homeo = Homeostasis(40, device)
    opt = RMSProp(model.parameters())
    gen = torch.Generator().manual_seed(7)
    torch_xla.sync()
    for i in range(1, args.steps + 1):
        loss = train_step(model, homeo, opt, *batch(gen, device))
        if str(i) in dump:
            with open(dump[str(i)], "w") as f:
                f.write(_XLAC._get_xla_tensors_hlo(pending(homeo, opt, loss)))
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main()
