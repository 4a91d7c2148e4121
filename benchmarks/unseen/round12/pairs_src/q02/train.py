"""beta-VAE on 16x16 sprites with KL warm-up."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    batch: int = 16
    latent: int = 8
    width: int = 16
    lr: float = 1e-3
    steps: int = 16
    kl_start: int = 2
    kl_warmup: int = 8
    seed: int = 3


def sprites(n, seed):
    g = torch.Generator().manual_seed(seed)
    xs = torch.zeros(n, 1, 16, 16)
    for i in range(n):
        y, x = torch.randint(0, 10, (2,), generator=g).tolist()
        h, w = torch.randint(3, 6, (2,), generator=g).tolist()
        xs[i, 0, y:y + h, x:x + w] = 1.0
    return xs


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.conv1 = nn.Conv2d(1, cfg.width, 4, 2, 1)
        self.conv2 = nn.Conv2d(cfg.width, cfg.width * 2, 4, 2, 1)
        self.norm = nn.GroupNorm(4, cfg.width * 2)
        self.mu = nn.Linear(cfg.width * 2 * 16, cfg.latent)
        self.logvar = nn.Linear(cfg.width * 2 * 16, cfg.latent)

    def forward(self, x):
        h = F.silu(self.conv1(x))
        h = F.silu(self.norm(self.conv2(h))).flatten(1)
        return self.mu(h), self.logvar(h)


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.width = cfg.width
        self.fc = nn.Linear(cfg.latent, cfg.width * 2 * 16)
        self.up1 = nn.ConvTranspose2d(cfg.width * 2, cfg.width, 4, 2, 1)
        self.up2 = nn.ConvTranspose2d(cfg.width, 1, 4, 2, 1)

    def forward(self, z):
        h = F.silu(self.fc(z)).view(-1, self.width * 2, 4, 4)
        return self.up2(F.silu(self.up1(h)))


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc, self.dec = Encoder(cfg), Decoder(cfg)

    def forward(self, x):
        mu, logvar = self.enc(x)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


def kl_weight(cfg, step):
    if step < cfg.kl_start:
        return 0.05
    return min(1.0, 0.05 + (step - cfg.kl_start) / cfg.kl_warmup)


def elbo(recon, x, mu, logvar, beta):
    rec = F.binary_cross_entropy_with_logits(recon, x, reduction="none").flatten(1).sum(1)
    kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(1)
    return (rec + beta * kl).mean(), rec.mean(), kl.mean()


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    data = sprites(256, cfg.seed).to(device)
    torch_xla.sync()
    model = VAE(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    order = torch.randint(0, 256, (cfg.steps, cfg.batch))
    for step in range(cfg.steps):
        x = data[order[step].to(device)]
        recon, mu, logvar = model(x)
        loss, rec, kl = elbo(recon, x, mu, logvar, kl_weight(cfg, step))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if (step + 1) % 4 == 0:
            print(f"[{step + 1:3d}] elbo {loss.item():.2f} rec {rec.item():.2f} kl {kl.item():.3f}")


if __name__ == "__main__":
    main()
