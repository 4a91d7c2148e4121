"""Class-conditional diffusion on 8x8 glyphs: a short training run, then guided DDIM samples."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CLASSES, SIZE, T = 5, 8, 100


def alpha_bars():
    t = torch.arange(T + 1, dtype=torch.float64) / T
    f = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
    return (f / f[0]).clamp(min=1e-4)[1:].float()


class ResBlock(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(4, cin), nn.GroupNorm(4, cout)
        self.c1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.c2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x)))
        scale, shift = self.emb(e)[:, :, None, None].chunk(2, dim=1)
        h = self.c2(F.silu(self.n2(h) * (1 + scale) + shift))
        return h + self.skip(x)


class UNet(nn.Module):
    def __init__(self, ch=16, emb=32):
        super().__init__()
        self.register_buffer("freqs", torch.exp(-math.log(1e4) * torch.arange(8) / 8))
        self.time = nn.Sequential(nn.Linear(16, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(CLASSES + 1, emb)
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.down = ResBlock(ch, ch, emb)
        self.mid = ResBlock(ch, 2 * ch, emb)
        self.up = ResBlock(3 * ch, ch, emb)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t, y):
        ang = t[:, None].float() * self.freqs
        e = F.silu(self.time(torch.cat([ang.sin(), ang.cos()], -1)) + self.label(y))
        h1 = self.down(self.inp(x), e)
        h2 = self.mid(F.avg_pool2d(h1, 2), e)
        h2 = F.interpolate(h2, scale_factor=2, mode="nearest")
        return self.out(self.up(torch.cat([h1, h2], 1), e))


class DDIM:
    def __init__(self, abar, n_steps, guidance, clip=1.0):
        self.abar = abar
        self.times = torch.linspace(T - 1, 0, n_steps).round().long().tolist()
        self.guidance = guidance
        self.clip = clip

    def predict(self, model, x, t, y):
        n = x.size(0)
        both_y = torch.cat([y, torch.full_like(y, CLASSES)])
        both_t = torch.full((2 * n,), t, device=x.device)
        eps_c, eps_u = model(torch.cat([x, x]), both_t, both_y).chunk(2)
        return eps_u + self.guidance * (eps_c - eps_u)

    @torch.no_grad()
    def __call__(self, model, x, y):
        for i, t in enumerate(self.times):
            a = self.abar[t]
            a_next = self.abar[self.times[i + 1]] if i + 1 < len(self.times) else torch.ones_like(a)
            eps = self.predict(model, x, t, y)
            x0 = (x - (1 - a).sqrt() * eps) / a.sqrt()
            x0 = x0.clamp(-self.clip, self.clip)
            eps = (x - a.sqrt() * x0) / (1 - a).sqrt()
            x = a_next.sqrt() * x0 + (1 - a_next).sqrt() * eps
        return x


def glyphs(n, gen):
    y = torch.randint(0, CLASSES, (n,), generator=gen)
    x = -torch.ones(n, 1, SIZE, SIZE)
    for img, c in zip(x, y.tolist()):
        if c == 0: img[:, 1:7, 3:5] = 1
        elif c == 1: img[:, 3:5, 1:7] = 1
        elif c == 2: img[:, 2:6, 2:6] = 1
        elif c == 3: img[0].fill_diagonal_(1)
        else: img[:, :4, :4] = 1
    return x, y


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    device = torch_xla.device()
    model = UNet().to(device)
    ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    abar = alpha_bars().to(device)
    torch_xla.sync()
    for step in range(6):
        x, y = (v.to(device) for v in glyphs(16, gen))
        t = torch.randint(0, T, (16,), generator=gen).to(device)
        noise = torch.randn(16, 1, SIZE, SIZE, generator=gen).to(device)
        drop = (torch.rand(16, generator=gen) < 0.1).to(device)
        a = abar[t][:, None, None, None]
        pred = model(a.sqrt() * x + (1 - a).sqrt() * noise, t, torch.where(drop, CLASSES, y))
        loss = F.mse_loss(pred, noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update_parameters(model)
        torch_xla.sync()
        xm.master_print(f"{step} {loss.item():.4f}")

    sampler = DDIM(abar, n_steps=4, guidance=2.5)
    y = (torch.arange(10) % CLASSES).to(device)
    start = torch.randn(10, 1, SIZE, SIZE, generator=gen).to(device)
    torch_xla.sync()
    out = sampler(ema.module, start, y)
    torch_xla.sync()
    xm.master_print(f"samples mean {out.mean().item():.4f} std {out.std().item():.4f}")


if __name__ == "__main__":
    main()
