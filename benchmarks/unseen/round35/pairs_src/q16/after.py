"""Denoising diffusion on single lead ECG beats: 1-D conv net, noise prediction."""
import copy
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LENGTH = 16
BATCH = 6
WIDTH = 8
T = 50


class ResBlock(nn.Module):
    def __init__(self, width, t_dim):
        super().__init__()
        self.norm = nn.GroupNorm(2, width)
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.film = nn.Linear(t_dim, 2 * width)

    def forward(self, x, temb):
        scale, shift = self.film(temb).unsqueeze(2).chunk(2, dim=1)
        h = self.norm(x) * (1 + scale) + shift
        return x + self.conv(F.silu(h))


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("freq", torch.exp(-math.log(1000.0) * torch.arange(4) / 4))
        self.t_proj = nn.Linear(8, 12)
        self.inp = nn.Conv1d(1, WIDTH, 3, padding=1)
        self.block = ResBlock(WIDTH, 12)
        self.out = nn.Conv1d(WIDTH, 1, 3, padding=1)

    def forward(self, x, t):
        arg = t.float().unsqueeze(1) * self.freq
        temb = F.silu(self.t_proj(torch.cat([arg.sin(), arg.cos()], dim=1)))
        return self.out(F.silu(self.block(self.inp(x), temb)))


class Schedule:
    def __init__(self, device):
        s = torch.arange(T + 1) / T
        f = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
        self.alpha_bar = (f[1:] / f[0]).clamp(1e-4, 0.9999).to(device)

    def noised(self, x0, noise, t):
        ab = self.alpha_bar[t].view(-1, 1, 1)
        return ab.sqrt() * x0 + (1 - ab).sqrt() * noise

    def min_snr(self, t, gamma=5.0):
        snr = self.alpha_bar[t] / (1 - self.alpha_bar[t])
        return snr.clamp(max=gamma) / snr


@torch.no_grad()
def update_ema(ema, model, decay=0.995):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.mul_(decay).add_(p, alpha=1 - decay)


def train_step(model, ema, opt, sched, x0, noise, t):
    pred = model(sched.noised(x0, noise, t), t)
    per_sample = ((pred - noise) ** 2).mean(dim=(1, 2))
    loss = (sched.min_snr(t) * per_sample).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    update_ema(ema, model)
    opt.step()
    return loss.detach()


def live(model, ema, opt, extra):
    out = []
    for p, e in zip(model.parameters(), ema.parameters()):
        out += [p, e, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out + extra


def main(path=None, dump_at=2, steps=3):
    torch.manual_seed(21)
    device = torch_xla.device()
    model = Denoiser().to(device)
    ema = copy.deepcopy(model).requires_grad_(False)
    sched = Schedule(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.02, amsgrad=False)
    g = torch.Generator().manual_seed(13)
    losses = []
    for step in range(steps):
        x0 = torch.randn(BATCH, 1, LENGTH, generator=g).to(device)
        noise = torch.randn(BATCH, 1, LENGTH, generator=g).to(device)
        t = torch.randint(0, T, (BATCH,), generator=g).to(device)
        loss = train_step(model, ema, opt, sched, x0, noise, t)
        if path and step == dump_at:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, ema, opt, [loss])))
        torch_xla.sync()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else None))
