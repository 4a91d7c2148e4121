# Score distillation: optimise a latent canvas against a frozen denoiser.
# The denoiser here is randomly initialised; only the optimisation loop matters.
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(1e4) * torch.arange(half, device=t.device) / half)
    args = t.float()[:, None] * freqs[None]
    return torch.cat([args.cos(), args.sin()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.conv = nn.Conv2d(ch, ch, 3, padding=1)
        self.emb = nn.Linear(emb, ch)

    def forward(self, x, e):
        h = self.conv(F.silu(x))
        return x + h + self.emb(e)[:, :, None, None]


class Denoiser(nn.Module):
    def __init__(self, ch=16, emb=32, ctx=24):
        super().__init__()
        self.emb_dim = emb
        self.inp = nn.Conv2d(4, ch, 3, padding=1)
        self.time = nn.Linear(emb, emb)
        self.ctx = nn.Linear(ctx, emb)
        self.mid = ResBlock(ch, emb)
        self.out = nn.Conv2d(ch, 4, 3, padding=1)

    def forward(self, x, t, context):
        e = F.silu(self.time(timestep_embedding(t, self.emb_dim)) + self.ctx(context))
        h = self.mid(self.inp(x), e)
        return self.out(h)


class Guidance(nn.Module):
    """Classifier-free guided score distillation gradient."""

    def __init__(self, num_steps=1000, scale=7.5, t_range=(0.02, 0.98)):
        super().__init__()
        self.net = Denoiser().requires_grad_(False)
        betas = torch.linspace(0.00085 ** 0.5, 0.012 ** 0.5, num_steps) ** 2
        self.register_buffer("alphas_cumprod", torch.cumprod(1.0 - betas, 0))
        self.scale = scale
        self.t_min, self.t_max = (int(num_steps * r) for r in t_range)

    def pick_timestep(self, progress, rng):
        # shrink the upper end as the optimisation settles
        hi = int(self.t_max - (self.t_max - self.t_min) * 0.5 * progress)
        return rng.randint(self.t_min, hi)

    def forward(self, latents, context, null_context, progress, rng):
        b = latents.size(0)
        t = self.pick_timestep(progress, rng)
        alpha = self.alphas_cumprod[t]
        with torch.no_grad():
            noise = torch.randn_like(latents)
            noisy = alpha.sqrt() * latents + (1 - alpha).sqrt() * noise
            tt = torch.full((2 * b,), t, dtype=torch.long, device=latents.device)
            eps = self.net(torch.cat([noisy, noisy]), tt, torch.cat([context, null_context]))
            eps_c, eps_n = eps.chunk(2)
            eps = eps_n + self.scale * (eps_c - eps_n)
            grad = (1 - alpha) * (eps - noise)
            target = (latents - grad).detach()
        return 0.5 * F.mse_loss(latents, target, reduction="sum") / b


class Canvas(nn.Module):
    """Coarse-to-fine feature planes decoded by a small MLP to a latent image."""

    def __init__(self, views, size=16, feat=8):
        super().__init__()
        self.coarse = nn.Parameter(0.1 * torch.randn(views, feat, size // 4, size // 4))
        self.fine = nn.Parameter(0.1 * torch.randn(views, feat, size, size))
        self.decode = nn.Sequential(nn.Conv2d(2 * feat, 16, 1), nn.SiLU(), nn.Conv2d(16, 4, 1))

    def forward(self):
        up = self.coarse.repeat_interleave(4, 2).repeat_interleave(4, 3)
        return self.decode(torch.cat([up, self.fine], dim=1))


def tv(x):
    return (x[..., 1:, :] - x[..., :-1, :]).abs().mean() + (x[..., 1:] - x[..., :-1]).abs().mean()


def main(iters=24, views=2, seed=21):
    torch.manual_seed(seed)
    rng = random.Random(seed)
    device = torch_xla.device()
    guidance = Guidance().to(device)
    canvas = Canvas(views).to(device)
    context = torch.randn(views, 24).to(device)
    null_context = torch.zeros(views, 24).to(device)
    opt = torch.optim.Adam(canvas.parameters(), lr=1e-2)

    for it in range(iters):
        latents = canvas()
        sds = guidance(latents, context, null_context, it / iters, rng)
        loss = sds + 0.05 * tv(latents)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if it % 8 == 7:
            print(f"iter {it + 1}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
