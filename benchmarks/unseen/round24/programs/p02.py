import math
import numpy as np
import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm

# GAN on 8x8 blobs. Two critic updates per generator update, lazy R1 (StyleGAN2 style), EMA generator.
cfg = dict(
    z=16, batch=24, steps=96, d_per_g=2, r1_every=8, r1_gamma=2.0,
    lr_g=2e-3, lr_d=2e-3, ema=0.98, show_every=24,
)


def real_batch(rng, n):
    yy, xx = np.mgrid[0:8, 0:8]
    cx, cy = rng.uniform(2, 6, (2, n, 1, 1))
    s = rng.uniform(0.8, 1.6, (n, 1, 1))
    img = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2 * s ** 2))
    return torch.from_numpy((2 * img - 1).astype(np.float32))[:, None]


class G(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.fc = nn.Linear(z, 32 * 4)
        self.up1 = nn.ConvTranspose2d(32, 24, 4, 2, 1)
        self.up2 = nn.ConvTranspose2d(24, 1, 4, 2, 1)

    def forward(self, z):
        h = torch.relu(self.fc(z)).view(-1, 32, 2, 2)
        return torch.tanh(self.up2(torch.relu(self.up1(h))))


class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 24, 4, 2, 1)
        self.c2 = nn.Conv2d(24, 32, 4, 2, 1)
        self.out = nn.Linear(32 * 4, 1)

    def forward(self, x):
        h = nn.functional.softplus(self.c1(x))
        h = nn.functional.softplus(self.c2(h))
        return self.out(h.flatten(1)).squeeze(1)


def d_step(gen, disc, opt, real, z, with_r1):
    opt.zero_grad(set_to_none=True)
    with torch.no_grad():
        fake = gen(z)
    loss = nn.functional.softplus(disc(fake)).mean() + nn.functional.softplus(-disc(real)).mean()
    if with_r1:
        x = real.detach().requires_grad_(True)
        (g,) = torch.autograd.grad(disc(x).sum(), x, create_graph=True)
        penalty = g.pow(2).sum((1, 2, 3)).mean()
        loss = loss + 0.5 * cfg["r1_gamma"] * cfg["r1_every"] * penalty
    loss.backward()
    opt.step()
    xm.mark_step()
    return loss.detach()


def g_step(gen, ema, disc, opt, z):
    opt.zero_grad(set_to_none=True)
    loss = nn.functional.softplus(-disc(gen(z))).mean()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for a, b in zip(ema.parameters(), gen.parameters()):
            a.mul_(cfg["ema"]).add_(b, alpha=1 - cfg["ema"])
    xm.mark_step()
    return loss.detach()


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    dev = torch_xla.device()
    gen, ema, disc = G(cfg["z"]), G(cfg["z"]), D()
    ema.load_state_dict(gen.state_dict())
    gen, ema, disc = gen.to(dev), ema.to(dev).requires_grad_(False), disc.to(dev)
    og = torch.optim.Adam(gen.parameters(), cfg["lr_g"], betas=(0.5, 0.99))
    od = torch.optim.Adam(disc.parameters(), cfg["lr_d"], betas=(0.5, 0.99))
    fixed_z = torch.randn(cfg["batch"], cfg["z"]).to(dev)

    d_count = 0
    for step in range(1, cfg["steps"] + 1):
        for _ in range(cfg["d_per_g"]):
            real = real_batch(rng, cfg["batch"]).to(dev)
            z = torch.randn(cfg["batch"], cfg["z"]).to(dev)
            ld = d_step(gen, disc, od, real, z, with_r1=d_count % cfg["r1_every"] == 0)
            d_count += 1
        z = torch.randn(cfg["batch"], cfg["z"]).to(dev)
        lg = g_step(gen, ema, disc, og, z)

        if step % cfg["show_every"] == 0:
            with torch.no_grad():
                sample = ema(fixed_z)
            xm.mark_step()
            img = sample.cpu()
            print("step %d  D %.3f  G %.3f  mean %.3f  std %.3f" % (
                step, ld.item(), lg.item(), img.mean(), img.std()))
            assert math.isfinite(lg.item())


main()
