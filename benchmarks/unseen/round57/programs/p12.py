"""Small DDPM on two-dimensional blobs rendered to 8x8 images; previews are drawn with DDIM while it trains."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

T = 200
SIDE = 8


def cosine_alpha_bar(n):
    t = torch.linspace(0, 1, n + 1)
    f = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
    return (f / f[0])[1:].clamp(1e-4, 0.9999)


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freqs", torch.exp(-math.log(1000.0) * torch.arange(dim // 2) / (dim // 2)))
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        ang = t.float().unsqueeze(-1) * self.freqs
        return self.mlp(torch.cat([ang.sin(), ang.cos()], -1))


class Block(nn.Module):
    def __init__(self, cin, cout, temb):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.norm = nn.GroupNorm(4, cout)
        self.proj = nn.Linear(temb, cout)

    def forward(self, x, temb):
        h = self.conv1(x) + self.proj(temb)[:, :, None, None]
        return self.conv2(F.silu(self.norm(h)))


class Denoiser(nn.Module):
    def __init__(self, width=16, temb=16):
        super().__init__()
        self.time = TimeEmbedding(temb)
        self.down = Block(1, width, temb)
        self.mid = Block(width, width, temb)
        self.up = Block(2 * width, width, temb)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x, t):
        e = self.time(t)
        a = self.down(x, e)
        b = self.mid(F.avg_pool2d(a, 2), e)
        b = b.repeat_interleave(2, -1).repeat_interleave(2, -2)
        return self.out(self.up(torch.cat([a, b], 1), e))


class Diffusion:
    def __init__(self, device):
        self.device = device
        self.alpha_bar = cosine_alpha_bar(T).to(device)
        self.snr = self.alpha_bar / (1 - self.alpha_bar)

    def loss(self, model, x0, t, noise, gamma=5.0):
        ab = self.alpha_bar[t].view(-1, 1, 1, 1)
        xt = ab.sqrt() * x0 + (1 - ab).sqrt() * noise
        per = F.mse_loss(model(xt, t), noise, reduction="none").mean((1, 2, 3))
        weight = self.snr[t].clamp(max=gamma) / self.snr[t]
        return (per * weight).mean()

    @torch.no_grad()
    def sample(self, model, n, n_steps, generator):
        edges = torch.linspace(0, T - 1, n_steps + 1)
        jitter = torch.rand(n_steps, generator=generator)
        times = (edges[:-1] + jitter * (edges[1:] - edges[:-1])).long().flip(0).tolist()
        x = torch.randn(n, 1, SIDE, SIDE, generator=generator).to(self.device)
        for t, t_next in zip(times, times[1:] + [0]):
            tt = torch.full((n,), t).to(self.device)
            eps = model(x, tt)
            ab, ab_next = self.alpha_bar[t], self.alpha_bar[t_next]
            x0 = ((x - (1 - ab).sqrt() * eps) / ab.sqrt()).clamp(-1, 1)
            x = ab_next.sqrt() * x0 + (1 - ab_next).sqrt() * eps
            torch_xla.sync()
        return x


def ema_update(ema, model, decay):
    with torch.no_grad():
        for e, p in zip(ema.parameters(), model.parameters()):
            e.lerp_(p, 1.0 - decay)


def make_images(n, generator):
    yy, xx = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    c = torch.randint(2, SIDE - 2, (n, 2), generator=generator).float()
    d = (yy - c[:, :1, None]) ** 2 + (xx - c[:, 1:, None]) ** 2
    return (2 * torch.exp(-d / 3.0) - 1).unsqueeze(1)


def main():
    torch.manual_seed(11)
    device = torch_xla.device()
    g = torch.Generator().manual_seed(5)
    model, ema = Denoiser().to(device), Denoiser().to(device)
    ema.load_state_dict(model.state_dict())
    ema.requires_grad_(False)
    diffusion = Diffusion(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    steps, batch = 40, 16

    for step in range(steps):
        x0 = make_images(batch, g).to(device)
        t = torch.randint(0, T, (batch,), generator=g).to(device)
        noise = torch.randn(batch, 1, SIDE, SIDE, generator=g).to(device)
        loss = diffusion.loss(model, x0, t, noise)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(opt)
        ema_update(ema, model, min(0.995, (1 + step) / (10 + step)))
        torch_xla.sync()
        if step % 10 == 9:
            preview = diffusion.sample(ema, 4, 8, g)
            lo, hi = preview.min().cpu(), preview.max().cpu()
            xm.master_print(f"step {step + 1} loss {loss.item():.4f} preview [{lo:.2f}, {hi:.2f}]")


if __name__ == "__main__":
    main()
