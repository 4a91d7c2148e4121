"""Toy VAE on synthetic 12x12 blobs."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    img=12,
    hidden=48,
    latent=6,
    batch=16,
    lr=2e-3,
    kl_cycle=8,
    kl_ratio=0.5,
    free_bits=0.02,
    steps=10,
)


def make_blobs(n, size, gen):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    cy = torch.rand(n, 1, 1, generator=gen) * size
    cx = torch.rand(n, 1, 1, generator=gen) * size
    r = 1.0 + 2.0 * torch.rand(n, 1, 1, generator=gen)
    d2 = (yy[None] - cy) ** 2 + (xx[None] - cx) ** 2
    return torch.exp(-d2 / (2 * r * r)).unsqueeze(1)


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(8, 12, 3, stride=2, padding=1)
        self.fc = nn.Linear(12 * 9, cfg["hidden"])
        self.mu = nn.Linear(cfg["hidden"], cfg["latent"])
        self.logvar = nn.Linear(cfg["hidden"], cfg["latent"])

    def forward(self, x):
        h = F.silu(self.conv1(x))
        h = F.silu(self.conv2(h))
        h = F.silu(self.fc(h.flatten(1)))
        return self.mu(h), self.logvar(h).clamp(-8.0, 4.0)


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.img = cfg["img"]
        self.net = nn.Sequential(
            nn.Linear(cfg["latent"], cfg["hidden"]),
            nn.SiLU(),
            nn.LayerNorm(cfg["hidden"]),
            nn.Linear(cfg["hidden"], cfg["img"] ** 2),
        )

    def forward(self, z):
        return self.net(z).view(-1, 1, self.img, self.img)


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc = Encoder(cfg)
        self.dec = Decoder(cfg)

    def forward(self, x, eps):
        mu, logvar = self.enc(x)
        z = mu + eps * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


def cyclical_beta(step, cycle, ratio):
    """Fu et al. 2019: linear ramp during the first part of each cycle, then flat."""
    pos = (step % cycle) / cycle
    return min(1.0, pos / ratio)


def elbo(recon, x, mu, logvar, beta, free_bits):
    rec = F.binary_cross_entropy_with_logits(recon, x, reduction="none").flatten(1).sum(1)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp())
    kl = kl.mean(0).clamp(min=free_bits).sum()
    return rec.mean() + beta * kl, rec.mean().detach(), kl.detach()


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    gen = torch.Generator().manual_seed(11)
    model = VAE(CFG).to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=CFG["lr"], alpha=0.95)
    torch_xla.sync()

    for step in range(CFG["steps"]):
        x = make_blobs(CFG["batch"], CFG["img"], gen).to(device)
        eps = torch.randn(CFG["batch"], CFG["latent"], generator=gen).to(device)
        beta = cyclical_beta(step, CFG["kl_cycle"], CFG["kl_ratio"])
        opt.zero_grad(set_to_none=True)
        recon, mu, logvar = model(x, eps)
        loss, rec, kl = elbo(recon, x, mu, logvar, beta, CFG["free_bits"])
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 5 == 0:
            xm.master_print(
                f"{step:3d} beta={beta:.2f} rec={rec.item():.3f} kl={kl.item():.3f} "
                f"bpd={rec.item() / (CFG['img'] ** 2 * math.log(2)):.3f}"
            )


if __name__ == "__main__":
    main()
