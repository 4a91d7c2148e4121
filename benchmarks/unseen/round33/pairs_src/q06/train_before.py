"""Diffusion model for small precipitation-radar patches; v-prediction, cosine schedule, min-SNR weights."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

T = 200
GAMMA = 5.0


def cosine_alphas_bar(n):
    s = 0.008
    f = torch.cos((torch.arange(n + 1, dtype=torch.float64) / n + s) / (1 + s) * math.pi / 2) ** 2
    return (f[1:] / f[0]).clamp(1e-4, 0.9999).float()


def timestep_embedding(t, dim):
    freqs = torch.exp(-math.log(1e4) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    ang = t.float()[:, None] * freqs[None]
    return torch.cat([ang.sin(), ang.cos()], dim=-1)


class ResUnit(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.n1 = nn.GroupNorm(2, cin, affine=False)
        self.c1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.emb = nn.Linear(emb, cout)
        self.c2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x)))
        h = h + self.emb(e)[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(h))


class RadarUNet(nn.Module):
    def __init__(self, ch=8, emb=16):
        super().__init__()
        self.emb = emb
        self.time = nn.Linear(emb, emb)
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.down = ResUnit(ch, ch, emb)
        self.mid = nn.Conv2d(ch, 2 * ch, 3, padding=1)
        self.grow = nn.ConvTranspose2d(2 * ch, 2 * ch, 2, stride=2)
        self.up = ResUnit(3 * ch, ch, emb)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        e = F.silu(self.time(timestep_embedding(t, self.emb)))
        h0 = self.down(self.inp(x), e)
        h = F.silu(self.mid(F.avg_pool2d(h0, 2)))
        h = self.grow(h)
        return self.out(self.up(torch.cat([h, h0], dim=1), e))


class Diffusion:
    def __init__(self, device):
        self.abar = cosine_alphas_bar(T).to(device)

    def loss(self, model, x0):
        b = x0.shape[0]
        t = torch.randint(0, T, (b,), device=x0.device)
        noise = torch.randn_like(x0)
        a = self.abar[t]
        sa, sn = a.sqrt()[:, None, None, None], (1 - a).sqrt()[:, None, None, None]
        xt = sa * x0 + sn * noise
        target = sa * noise - sn * x0
        pred = model(xt, t)
        snr = a / (1 - a)
        weight = snr.clamp(max=GAMMA) / (snr + 1)
        return (weight * F.mse_loss(pred, target, reduction="none").mean(dim=(1, 2, 3))).mean()


def radar_patches(gen, n, size=16):
    cx, cy = torch.rand(2, n, 1, 1, generator=gen) * size
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    r = ((xx - cx) ** 2 + (yy - cy) ** 2) / (4 + 20 * torch.rand(n, 1, 1, generator=gen))
    rain = torch.exp(-r) * 8 * torch.rand(n, 1, 1, generator=gen)
    return (torch.log1p(rain).unsqueeze(1) - 0.6) / 0.8


def main(steps=5, bs=4):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    device = torch_xla.device()
    model = RadarUNet().to(device)
    diffusion = Diffusion(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.9, 0.99))
    torch_xla.sync()
    for step in range(steps):
        x0 = radar_patches(gen, bs).to(device)
        loss = diffusion.loss(model, x0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, f"{loss.item():.5f}")


if __name__ == "__main__":
    main()
