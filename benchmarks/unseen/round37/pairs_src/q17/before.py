"""Synthetic ECG leads: two deterministic DDIM steps with classifier-free guidance (inference only)."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LEADS, CH, SPAN, RHYTHMS, BATCH = 2, 8, 16, 4, 3
GUIDANCE = 2.5


def sinusoid(t, dim):
    freq = torch.exp(torch.arange(dim // 2, device=t.device) * (-math.log(1e4) / (dim // 2)))
    arg = t.float().unsqueeze(1) * freq
    return torch.cat([arg.sin(), arg.cos()], dim=1)


class ResBlock(nn.Module):

    def __init__(self, c_in, c_out):
        super().__init__()
        self.norm1 = nn.GroupNorm(2, c_in)
        self.conv1 = nn.Conv1d(c_in, c_out, 3, padding=1)
        self.film = nn.Linear(CH, 2 * c_out)
        self.norm2 = nn.GroupNorm(2, c_out)
        self.conv2 = nn.Conv1d(c_out, c_out, 3, padding=1)
        self.short = nn.Conv1d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, cond):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.film(cond).unsqueeze(2).chunk(2, dim=1)
        h = self.norm2(h) * (1 + scale) + shift
        return self.short(x) + self.conv2(F.silu(h))


class Denoiser(nn.Module):

    def __init__(self):
        super().__init__()
        self.rhythm = nn.Embedding(RHYTHMS + 1, CH)  # the last row: no condition
        self.time = nn.Linear(CH, CH)
        self.inp = nn.Conv1d(LEADS, CH, 3, padding=1)
        self.down = ResBlock(CH, CH)
        self.pool = nn.Conv1d(CH, 2 * CH, 2, stride=2)
        self.mid = ResBlock(2 * CH, 2 * CH)
        self.up = nn.ConvTranspose1d(2 * CH, CH, 2, stride=2)
        self.merge = ResBlock(2 * CH, CH)
        self.out = nn.Conv1d(CH, LEADS, 1)

    def forward(self, x, t, label):
        cond = F.silu(self.time(sinusoid(t, CH)) + self.rhythm(label))
        skip = self.down(self.inp(x), cond)
        h = self.up(self.mid(self.pool(skip), cond))
        return self.out(F.silu(self.merge(torch.cat([h, skip], dim=1), cond)))


class Sampler:

    def __init__(self, model, device, train_steps=100):
        beta = torch.linspace(1e-4, 0.05, train_steps)
        self.alpha_bar = torch.cumprod(1 - beta, dim=0).to(device)
        self.model = model

    def eps(self, x, t, label):
        none = torch.full_like(label, RHYTHMS)
        both = self.model(torch.cat([x, x]), torch.cat([t, t]), torch.cat([label, none]))
        return both.chunk(2)

    @torch.no_grad()
    def step(self, x, t, t_next, label):
        a, s = self.coeff(t)
        a_next, s_next = self.coeff(t_next)
        cond, uncond = self.eps(x, t, label)
        eps = uncond + GUIDANCE * (cond - uncond)
        x0 = ((x - s * eps) / a).clamp(-1.0, 1.0)
        eps = (x - a * x0) / s
        return a_next * x0 + s_next * eps

    def coeff(self, t):
        bar = self.alpha_bar.index_select(0, t).view(-1, 1, 1)
        return bar.sqrt(), (1 - bar).sqrt()


def main(dump=None):
    torch.manual_seed(17)
    device = torch_xla.device()
    model = Denoiser().eval().to(device)
    sampler = Sampler(model, device)
    x = torch.randn(BATCH, LEADS, SPAN).to(device)
    label = torch.tensor([0, 3, 1]).to(device)
    times = [torch.full((BATCH,), t).to(device) for t in (90, 70, 50, 30, 10)]
    torch_xla.sync()
    for i in range(0, 4, 2):
        x = sampler.step(x, times[i], times[i + 1], label)
        x = sampler.step(x, times[i + 1], times[i + 2], label)
        if dump and i == 2:
            with open(dump, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo([x]))
        torch_xla.sync()
        print(i, x.std().item())


if __name__ == "__main__":
    main(*sys.argv[1:])
