"""Toy DDPM on 8x8 'digits' with regular previews from the EMA weights."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import torch_xla
import torch_xla.core.xla_model as xm


def sinusoidal(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(1000.0) * torch.arange(half, device=t.device) / half)
    ang = t.float()[:, None] * freqs[None]
    return torch.cat([ang.sin(), ang.cos()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, ch, temb):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(4, ch), nn.Conv2d(ch, ch, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(4, ch), nn.Conv2d(ch, ch, 3, padding=1)
        self.emb = nn.Linear(temb, ch)

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x))) + self.emb(e)[:, :, None, None]
        return x + self.c2(F.silu(self.n2(h)))


class Denoiser(nn.Module):
    def __init__(self, ch=12, temb=16):
        super().__init__()
        self.temb = temb
        self.mlp = nn.Sequential(nn.Linear(temb, temb), nn.SiLU())
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.block = ResBlock(ch, temb)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        e = self.mlp(sinusoidal(t, self.temb))
        return self.out(self.block(self.inp(x), e))


class GaussianDiffusion(nn.Module):
    def __init__(self, timesteps=16):
        super().__init__()
        self.T = timesteps
        betas = torch.linspace(1e-3, 0.25, timesteps)
        alphas = 1.0 - betas
        abar = torch.cumprod(alphas, 0)
        abar_prev = F.pad(abar[:-1], (1, 0), value=1.0)
        self.register_buffer("sqrt_abar", abar.sqrt())
        self.register_buffer("sqrt_1m_abar", (1 - abar).sqrt())
        self.register_buffer("recip_sqrt_alpha", alphas.rsqrt())
        self.register_buffer("eps_coef", betas / (1 - abar).sqrt())
        self.register_buffer("post_std", (betas * (1 - abar_prev) / (1 - abar)).sqrt())

    def loss(self, net, x0):
        t = torch.randint(0, self.T, (x0.size(0),), device=x0.device)
        noise = torch.randn_like(x0)
        a = self.sqrt_abar[t].view(-1, 1, 1, 1)
        s = self.sqrt_1m_abar[t].view(-1, 1, 1, 1)
        return F.mse_loss(net(a * x0 + s * noise, t), noise)

    def p_sample(self, net, x, t):
        batch_t = torch.full((x.size(0),), t, device=x.device, dtype=torch.long)
        eps = net(x, batch_t)
        mean = self.recip_sqrt_alpha[t] * (x - self.eps_coef[t] * eps)
        return mean + self.post_std[t] * torch.randn_like(x)

    @torch.no_grad()
    def sample(self, net, shape, device):
        x = torch.randn(shape, device=device)
        for t in reversed(range(self.T)):
            x = self.p_sample(net, x, t)
            xm.mark_step()
        return x.clamp(-1, 1)


@torch.no_grad()
def ema_update(ema, net, decay=0.95):
    for pe, p in zip(ema.parameters(), net.parameters()):
        pe.mul_(decay).add_(p, alpha=1 - decay)


def fake_digits(n, gen):
    x = torch.full((n, 1, 8, 8), -1.0)
    rows = torch.randint(0, 6, (n,), generator=gen)
    cols = torch.randint(0, 6, (n,), generator=gen)
    for i in range(n):
        x[i, 0, rows[i]:rows[i] + 2, :] = 1.0
        x[i, 0, :, cols[i]:cols[i] + 2] = 1.0
    return x


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(5)
    device = torch_xla.device()
    data = fake_digits(256, gen)
    net = Denoiser().to(device)
    ema = copy.deepcopy(net)
    diff = GaussianDiffusion().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    total, batch, preview_every = 60, 16, 20
    for step in range(1, total + 1):
        idx = torch.randint(0, len(data), (batch,), generator=gen)
        x0 = data[idx].to(device)
        opt.zero_grad()
        loss = diff.loss(net, x0)
        loss.backward()
        opt.step()
        ema_update(ema, net)
        xm.mark_step()
        if step % preview_every == 0:
            imgs = diff.sample(ema, (4, 1, 8, 8), device).cpu()
            print(f"step {step} loss {loss.item():.4f} "
                  f"preview mean {imgs.mean():.3f} std {imgs.std():.3f}", flush=True)


if __name__ == "__main__":
    main()
