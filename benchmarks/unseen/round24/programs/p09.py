"""Small DiT-style denoiser on toy 8x8 images, eps-prediction, LayerDrop regularisation."""
import copy
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla as xla
import torch_xla.core.xla_model as xm


class Args:
    patch = 2
    width = 32
    depth = 4
    heads = 2
    layerdrop = 0.2
    T = 50
    batch = 16
    iters = 40
    lr = 1e-3
    ema_decay = 0.99
    sample_every = 20
    sample_stride = 5


def toy_images(n, g):
    grid = torch.linspace(-1, 1, 8)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    th = torch.rand(n, 1, 1, generator=g) * math.pi
    fr = 2 + 3 * torch.rand(n, 1, 1, generator=g)
    return torch.sin(fr * (xx * th.cos() + yy * th.sin()))[:, None]


def timestep_embedding(t, dim):
    freqs = torch.exp(-math.log(1000.0) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    ang = t[:, None].float() * freqs[None]
    return torch.cat([ang.cos(), ang.sin()], -1)


class DiTBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.n1 = nn.LayerNorm(d, elementwise_affine=False)
        self.n2 = nn.LayerNorm(d, elementwise_affine=False)
        self.qkv = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.mod = nn.Linear(d, 4 * d)

    def forward(self, x, c):
        s1, g1, s2, g2 = self.mod(c)[:, None].chunk(4, -1)
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x) * (1 + s1)).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        a = ((q @ k.transpose(-1, -2)) * (d // self.h) ** -0.5).softmax(-1)
        x = x + g1 * self.o((a @ v).transpose(1, 2).reshape(b, n, d))
        return x + g2 * self.mlp(self.n2(x) * (1 + s2))


class DiT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.a = a
        n = (8 // a.patch) ** 2
        self.inp = nn.Linear(a.patch ** 2, a.width)
        self.pos = nn.Parameter(torch.randn(n, a.width) * 0.02)
        self.time = nn.Sequential(nn.Linear(a.width, a.width), nn.SiLU())
        self.layers = nn.ModuleList([DiTBlock(a.width, a.heads) for _ in range(a.depth)])
        self.out = nn.Linear(a.width, a.patch ** 2)

    def forward(self, x, t):
        p = self.a.patch
        b, g = x.size(0), x.size(-1) // p
        tok = x.view(b, g, p, g, p).transpose(2, 3).reshape(b, g * g, p * p)
        h = self.inp(tok) + self.pos
        c = self.time(timestep_embedding(t, self.a.width))
        for layer in self.layers:
            if self.training and random.random() < self.a.layerdrop:
                continue
            h = layer(h, c)
        return self.out(h).view(b, g, g, p, p).transpose(2, 3).reshape(b, 1, g * p, g * p)


@torch.no_grad()
def ddim(model, alpha_bar, args, dev):
    x = torch.randn(args.batch, 1, 8, 8).to(dev)
    taus = list(range(args.T - 1, -1, -args.sample_stride))
    for i, tau in enumerate(taus):
        t = torch.full((args.batch,), tau).to(dev)
        prev = torch.full((args.batch,), max(tau - args.sample_stride, 0)).to(dev)
        ab, ab_prev = alpha_bar[t].view(-1, 1, 1, 1), alpha_bar[prev].view(-1, 1, 1, 1)
        eps = model(x, t)
        x0 = ((x - (1 - ab).sqrt() * eps) / ab.sqrt()).clamp(-1, 1)
        x = ab_prev.sqrt() * x0 + (1 - ab_prev).sqrt() * eps
        xla.sync()
    return x.cpu()


def main():
    args = Args()
    random.seed(11)
    torch.manual_seed(11)
    g = torch.Generator().manual_seed(11)
    dev = xla.device()
    model = DiT(args).to(dev)
    ema = copy.deepcopy(model).eval().requires_grad_(False)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-3, 0.12, args.T), 0).to(dev)
    xla.sync()

    for it in range(1, args.iters + 1):
        model.train()
        x0 = toy_images(args.batch, g).to(dev)
        t = torch.randint(0, args.T, (args.batch,), generator=g).to(dev)
        noise = torch.randn_like(x0)
        ab = alpha_bar[t].view(-1, 1, 1, 1)
        xt = ab.sqrt() * x0 + (1 - ab).sqrt() * noise
        loss = F.mse_loss(model(xt, t), noise)
        opt.zero_grad(set_to_none=False)
        loss.backward()
        xm.optimizer_step(opt)
        with torch.no_grad():
            for e, p in zip(ema.parameters(), model.parameters()):
                e.mul_(args.ema_decay).add_(p, alpha=1 - args.ema_decay)
        xla.sync()
        if it % args.sample_every == 0:
            s = ddim(ema, alpha_bar, args, dev)
            print(f"{it}: loss {loss.item():.4f} sample std {s.std().item():.3f}")


if __name__ == "__main__":
    main()
