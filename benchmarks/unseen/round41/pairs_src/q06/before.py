"""Diffusion model for seismic traces: 1-d conv denoiser, SNR-weighted noise loss, EMA weights.

usage: before.py OUT      writes the pending graph of the third training step
"""
import math
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LENGTH, WIDTH, BATCH, STEPS = 16, 8, 6, 100
DECAY, GAMMA = 0.995, 5.0


def time_embedding(t, dim):
    half = dim // 2
    freq = torch.exp(-math.log(10000.0) * torch.arange(half, device=t.device) / half)
    arg = t.float().unsqueeze(1) * freq.unsqueeze(0)
    return torch.cat([arg.sin(), arg.cos()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(2, width)
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.film = nn.Linear(width, 2 * width)

    def forward(self, x, emb):
        scale, shift = self.film(emb).unsqueeze(-1).chunk(2, dim=1)
        h = self.norm(x) * (1 + scale) + shift
        return x + self.conv(F.silu(h))


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Linear(WIDTH, WIDTH)
        self.inp = nn.Conv1d(1, WIDTH, 3, padding=1)
        self.block = ResBlock(WIDTH)
        self.out = nn.Conv1d(WIDTH, 1, 3, padding=1)

    def forward(self, x, t):
        emb = F.silu(self.time(time_embedding(t, WIDTH)))
        return self.out(F.silu(self.block(self.inp(x), emb)))


def cosine_schedule(steps):
    s = torch.arange(steps + 1) / steps
    abar = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
    return (abar / abar[0])[1:].clamp(min=1e-4)


@torch.no_grad()
def update_ema(ema, params):
    for e, p in zip(ema, params):
        e.mul_(DECAY).add_(p, alpha=1.0 - DECAY)


def diffusion_loss(net, abar, clean, t, noise):
    a = abar[t].view(-1, 1, 1)
    noisy = a.sqrt() * clean + (1 - a).sqrt() * noise
    err = (net(noisy, t) - noise).pow(2).mean(dim=(1, 2))
    snr = abar[t] / (1 - abar[t])
    weight = snr.clamp(max=GAMMA) / snr
    return (weight * err).mean()


def main(out):
    torch.manual_seed(17)
    device = xm.xla_device()
    net = Denoiser().to(device)
    params = list(net.parameters())
    ema = [p.detach().clone() for p in params]
    abar = cosine_schedule(STEPS).to(device)
    opt = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01)
    for step in range(3):
        clean = torch.randn(BATCH, 1, LENGTH).cumsum(-1).to(device)
        t = torch.randint(STEPS, (BATCH,)).to(device)
        noise = torch.randn(BATCH, 1, LENGTH).to(device)
        torch_xla.sync()

        loss = diffusion_loss(net, abar, clean, t, noise)
        loss.backward()
        opt.step()
        update_ema(ema, params)
        opt.zero_grad(set_to_none=True)

        if step == 2:
            live = [loss.detach()] + [p.detach() for p in params] + ema
            live += [opt.state[p][k] for p in params for k in ("exp_avg", "exp_avg_sq")]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), sum(float(e.abs().sum()) for e in ema))


if __name__ == "__main__":
    main(sys.argv[1])
