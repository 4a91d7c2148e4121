import argparse
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def parse():
    p = argparse.ArgumentParser("tiny style-modulated gan")
    p.add_argument("--iters", type=int, default=24)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--z", type=int, default=16)
    p.add_argument("--d_reg_every", type=int, default=4)
    p.add_argument("--r1", type=float, default=10.0)
    p.add_argument("--sample_every", type=int, default=8)
    return p.parse_args([])


class ModConv(nn.Module):
    def __init__(self, cin, cout, style):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1)
        self.affine = nn.Linear(style, cin)
        self.noise = nn.Parameter(torch.zeros(1))

    def forward(self, x, w):
        x = x * (1 + self.affine(w))[:, :, None, None]
        x = self.conv(x)
        x = x + self.noise * torch.randn_like(x[:, :1])
        return F.leaky_relu(x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-8), 0.2)


class Generator(nn.Module):
    def __init__(self, z, ch=16):
        super().__init__()
        self.mapping = nn.Sequential(nn.Linear(z, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2))
        self.const = nn.Parameter(torch.randn(1, ch, 4, 4))
        self.blocks = nn.ModuleList([ModConv(ch, ch, 32) for _ in range(3)])
        self.to_rgb = nn.Conv2d(ch, 3, 1)

    def forward(self, z):
        w = self.mapping(F.normalize(z, dim=1))
        x = self.const.expand(z.size(0), -1, -1, -1)
        for i, b in enumerate(self.blocks):
            if i:
                x = x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
            x = b(x, w)
        return torch.tanh(self.to_rgb(x))


class Discriminator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.stem = nn.Conv2d(3, ch, 1)
        self.convs = nn.ModuleList([nn.Conv2d(ch, ch, 3, padding=1) for _ in range(2)])
        self.out = nn.Sequential(nn.Linear(ch * 16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

    def forward(self, x):
        x = F.leaky_relu(self.stem(x), 0.2)
        for c in self.convs:
            x = F.avg_pool2d(F.leaky_relu(c(x), 0.2), 2)
        return self.out(x.flatten(1)).squeeze(1)


def blobs(n, gen):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
    c = torch.rand(n, 3, 2, generator=gen) * 1.4 - 0.7
    d = (xx - c[..., 0, None, None]) ** 2 + (yy - c[..., 1, None, None]) ** 2
    return torch.exp(-d * 8) * 2 - 1


def d_step(st, real, args, regularize):
    st.d_opt.zero_grad()
    with torch.no_grad():
        fake = st.G(torch.randn(args.batch, args.z, device=st.dev))
    real.requires_grad_(regularize)
    real_logit = st.D(real)
    loss = F.softplus(-real_logit).mean() + F.softplus(st.D(fake)).mean()
    if regularize:
        (g,) = torch.autograd.grad(real_logit.sum(), real, create_graph=True)
        loss = loss + args.r1 / 2 * args.d_reg_every * g.pow(2).sum((1, 2, 3)).mean()
    loss.backward()
    st.d_opt.step()
    xm.mark_step()
    return loss.detach()


def g_step(st, args):
    st.g_opt.zero_grad()
    loss = F.softplus(-st.D(st.G(torch.randn(args.batch, args.z, device=st.dev)))).mean()
    loss.backward()
    st.g_opt.step()
    with torch.no_grad():
        for pe, p in zip(st.G_ema.parameters(), st.G.parameters()):
            pe.lerp_(p, 0.02)
    xm.mark_step()
    return loss.detach()


def main():
    args = parse()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    dev = xm.xla_device()
    st = SimpleNamespace(dev=dev, G=Generator(args.z).to(dev), D=Discriminator().to(dev), G_ema=Generator(args.z).to(dev))
    st.G_ema.load_state_dict(st.G.state_dict())
    st.g_opt = torch.optim.Adam(st.G.parameters(), lr=2e-3, betas=(0.0, 0.99))
    st.d_opt = torch.optim.Adam(st.D.parameters(), lr=2e-3, betas=(0.0, 0.99))
    fixed_z = torch.randn(4, args.z).to(dev)
    xm.mark_step()

    for it in range(args.iters):
        real = blobs(args.batch, gen).to(dev)
        d_loss = d_step(st, real, args, regularize=it % args.d_reg_every == 0)
        g_loss = g_step(st, args)
        if it % args.sample_every == 0:
            with torch.no_grad():
                img = st.G_ema(fixed_z).cpu()
            print(f"it {it:3d} D {d_loss.item():.3f} G {g_loss.item():.3f} sample range [{img.min():.2f}, {img.max():.2f}]")


if __name__ == "__main__":
    main()
