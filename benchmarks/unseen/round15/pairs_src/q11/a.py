"""Denoising of seismic traces: small 1-d convolutional network."""
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch_xla
import torch_xla.debug.metrics as met

SAMPLES, TRACES = 64, 16


def ricker(t, f):
    a = (torch.pi * f * t) ** 2
    return (1 - 2 * a) * torch.exp(-a)


def gather(n, gen):
    t = torch.linspace(0, 0.5, SAMPLES)
    out = torch.zeros(n, SAMPLES)
    for _ in range(4):
        at = torch.rand(n, 1, generator=gen) * 0.4 + 0.05
        amp = torch.randn(n, 1, generator=gen)
        f = 12 + 10 * torch.rand(n, 1, generator=gen)
        out += amp * ricker(t[None] - at, f)
    return out.unsqueeze(1)


class ResUnit(nn.Module):
    def __init__(self, ch, groups=4, slope=0.1):
        super().__init__()
        self.norm = nn.GroupNorm(groups, ch)
        self.conv_in = nn.Conv1d(ch, ch, 5, padding=2)
        self.conv_out = nn.Conv1d(ch, ch, 5, padding=2)
        self.act = nn.LeakyReLU(slope)

    def forward(self, x):
        h = self.conv_in(self.act(self.norm(x)))
        return x + self.conv_out(self.act(h))


class Denoiser(nn.Module):
    def __init__(self, ch=16, units=2):
        super().__init__()
        self.lift = nn.Conv1d(1, ch, 7, padding=3)
        self.units = nn.Sequential(*[ResUnit(ch) for _ in range(units)])
        self.drop = nn.Conv1d(ch, 1, 1)

    def forward(self, noisy):
        return noisy - self.drop(self.units(self.lift(noisy)))


def snr(clean, est):
    return 10 * torch.log10(clean.pow(2).sum() / (clean - est).pow(2).sum())


def main(steps=int(sys.argv[1]) if len(sys.argv) > 1 else 30):
    torch.manual_seed(10)
    gen = torch.Generator().manual_seed(4)
    dev = torch_xla.device()
    net = Denoiser().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=steps)
    loss_fn = nn.L1Loss()
    for k in range(steps):
        clean = gather(TRACES, gen)
        noisy = clean + 0.4 * torch.randn(clean.shape, generator=gen)
        clean, noisy = clean.to(dev), noisy.to(dev)
        est = net(noisy)
        loss = loss_fn(est, clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        if k % 10 == 9:
            print(f"{Path(__file__).stem} {k + 1:3d} L1 {loss.item():.4f} "
                  f"compiles {met.counter_value('UncachedCompile')}")


if __name__ == "__main__":
    main()
