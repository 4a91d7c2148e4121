"""Remaining useful life of lithium cells from impedance spectra."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met


class FrequencyMixer(nn.Module):

    def __init__(self, n_freq, n_ch, expand=2):
        super().__init__()
        self.norm_f = nn.LayerNorm(n_ch)
        self.freq = nn.Sequential(nn.Linear(n_freq, expand * n_freq), nn.SiLU(), nn.Linear(expand * n_freq, n_freq))
        self.norm_c = nn.LayerNorm(n_ch)
        self.chan = nn.Sequential(nn.Linear(n_ch, expand * n_ch), nn.SiLU(), nn.Linear(expand * n_ch, n_ch))

    def forward(self, z):
        z = z + self.freq(self.norm_f(z).transpose(1, 2)).transpose(1, 2)
        return z + self.chan(self.norm_c(z))


class CellLife(nn.Module):

    def __init__(self, n_freq=10, n_ch=8, n_cond=3, depth=1):
        super().__init__()
        self.lift = nn.Linear(2, n_ch)
        self.blocks = nn.ModuleList(FrequencyMixer(n_freq, n_ch) for _ in range(depth))
        self.cond = nn.Linear(n_cond, n_ch)
        self.fc = nn.Linear(n_ch, n_ch)
        self.out = nn.Linear(n_ch, 1)

    def forward(self, spectrum, cond):
        z = self.lift(spectrum)
        for block in self.blocks:
            z = block(z)
        z = z.mean(1) * (1 + torch.tanh(self.cond(cond)))
        z = F.silu(self.fc(z))
        return F.softplus(self.out(z)).squeeze(-1)


def phm_score(pred, true, early=13.0, late=10.0):
    d = 10 * (pred - true)
    score = torch.where(d < 0, torch.exp(-d / early), torch.exp(d / late)) - 1
    return score.clamp(max=50.0).mean()


def cells(n, n_freq, gen):
    age = torch.rand(n, generator=gen)
    w = torch.logspace(-2, 4, n_freq)
    r = (0.1 + age)[:, None]
    tau = (w * 0.01)[None] * (1 + age[:, None])
    re, im = r / (1 + tau**2) + 0.02, -r * tau / (1 + tau**2)
    cond = torch.randn(n, 3, generator=gen)
    return torch.stack([re, im], -1), cond, 2 * (1 - age) * (1 + 0.05 * cond[:, 0])


def main(steps=6, batch=8, n_freq=10):
    torch.manual_seed(17)
    gen = torch.Generator().manual_seed(17)
    dev = xm.xla_device()
    model = CellLife(n_freq).to(dev)
    opt = torch.optim.Adamax(model.parameters(), lr=4e-3)
    for i in range(steps):
        for g in opt.param_groups:
            g["lr"] = 4e-3 * 0.5 * (1 + math.cos(math.pi * (i + 0.5) / steps))
        spectrum, cond, rul = (t.to(dev) for t in cells(batch, n_freq, gen))
        opt.zero_grad()
        loss = phm_score(model(spectrum, cond), rul)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, f"{loss.item():.4f}", met.counter_value("UncachedCompile"))


if __name__ == "__main__":
    main()
