import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, size=8, seed=0):
    rng = np.random.RandomState(seed)
    yy, xx = np.mgrid[0:size, 0:size]
    cy, cx = rng.uniform(2, size - 2, (2, n, 1, 1))
    img = np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 4.0)
    return torch.tensor(2 * img[:, None] - 1, dtype=torch.float32)


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        freqs = torch.exp(-math.log(1000.0) * torch.arange(dim // 2) / (dim // 2))
        self.register_buffer('freqs', freqs)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        a = t.float()[:, None] * self.freqs[None]
        return self.mlp(torch.cat([a.sin(), a.cos()], dim=-1))


class TinyDenoiser(nn.Module):
    def __init__(self, ch=12, dim=16):
        super().__init__()
        self.time = TimeEmbedding(dim)
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.mid = nn.ModuleList([nn.Conv2d(ch, ch, 3, padding=1) for _ in range(2)])
        self.proj = nn.ModuleList([nn.Linear(dim, ch) for _ in range(2)])
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        e = self.time(t)
        h = self.inp(x)
        for conv, proj in zip(self.mid, self.proj):
            h = h + torch.nn.functional.silu(conv(h) + proj(e)[:, :, None, None])
        return self.out(h)


class Diffusion(nn.Module):
    def __init__(self, net, T=30):
        super().__init__()
        self.net, self.T = net, T
        betas = torch.linspace(1e-3, 0.15, T)
        self.register_buffer('betas', betas)
        self.register_buffer('alphas', 1 - betas)
        self.register_buffer('abar', torch.cumprod(1 - betas, 0))

    def loss(self, x0):
        t = torch.randint(0, self.T, (x0.shape[0],), device=x0.device)
        a = self.abar.index_select(0, t).view(-1, 1, 1, 1)
        eps = torch.randn_like(x0)
        return (self.net(a.sqrt() * x0 + (1 - a).sqrt() * eps, t) - eps).pow(2).mean()

    @torch.no_grad()
    def sample(self, n, device):
        x = torch.randn(n, 1, 8, 8, device=device)
        steps = torch.arange(self.T, device=device)
        for i in reversed(range(self.T)):
            t = steps[i].expand(n)
            eps = self.net(x, t)
            coef = self.betas[i] / (1 - self.abar[i]).sqrt()
            mean = (x - coef * eps) / self.alphas[i].sqrt()
            noise = torch.randn_like(x) if i > 0 else torch.zeros_like(x)
            x = mean + self.betas[i].sqrt() * noise
            xm.mark_step()
        return x


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    images = blobs(192)
    loader = DataLoader(TensorDataset(images), batch_size=16, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = Diffusion(TinyDenoiser()).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)

    for epoch in range(4):
        model.train()
        for (x,) in loader:
            opt.zero_grad()
            loss = model.loss(x)
            loss.backward()
            xm.optimizer_step(opt)
        if epoch % 2 == 1:
            model.eval()
            grid = model.sample(4, device).clamp(-1, 1).cpu()
            print('epoch', epoch, 'loss %.4f' % loss.item(), 'sample mean %.3f std %.3f' % (grid.mean(), grid.std()))


if __name__ == '__main__':
    main()
