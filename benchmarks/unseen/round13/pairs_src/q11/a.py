"""DDPM on tiny images: epsilon prediction, GroupNorm ResBlocks with time embedding."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

T = 50
betas = torch.linspace(1e-4, 0.05, T)
alpha_bar = torch.cumprod(1 - betas, 0)


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(1000.0) * torch.arange(half, device=t.device) / half)
    ang = t.float()[:, None] * freqs[None]
    return torch.cat([ang.cos(), ang.sin()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, ch, tdim):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(8, ch), nn.GroupNorm(8, ch)
        self.c1, self.c2 = nn.Conv2d(ch, ch, 3, padding=1), nn.Conv2d(ch, ch, 3, padding=1)
        self.t = nn.Linear(tdim, ch)

    def forward(self, x, temb):
        h = self.c1(F.silu(self.n1(x)))
        h = h + self.t(F.silu(temb))[:, :, None, None]
        return x + self.c2(F.silu(self.n2(h)))


class Denoiser(nn.Module):
    def __init__(self, ch=16, tdim=16):
        super().__init__()
        self.tdim = tdim
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.blocks = nn.ModuleList([ResBlock(ch, tdim) for _ in range(2)])
        self.norm = nn.GroupNorm(8, ch)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        temb = timestep_embedding(t, self.tdim)
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, temb)
        return self.out(F.silu(self.norm(h)))


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    net = Denoiser().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(12):
        x0 = torch.randn(6, 1, 8, 8).sign() * 0.5
        t = torch.randint(0, T, (6,))
        eps = torch.randn_like(x0)
        ab = alpha_bar[t].view(-1, 1, 1, 1)
        xt = ab.sqrt() * x0 + (1 - ab).sqrt() * eps
        xt, t, eps = xt.to(device), t.to(device), eps.to(device)
        loss = F.mse_loss(net(xt, t), eps)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 4 == 3:
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
