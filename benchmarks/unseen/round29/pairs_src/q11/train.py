"""Conv VAE on synthetic blobs, single XLA device."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = {
    "image": 16,
    "channels": 1,
    "width": 8,
    "latent": 6,
    "batch": 8,
    "lr": 2e-3,
    "steps": 8,
    "kl_warmup": 5,
    "kl_weight": 1.0,
    "seed": 7,
}


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg["width"]
        self.stem = nn.Conv2d(cfg["channels"], w, 3, stride=2, padding=1)
        self.down = nn.Conv2d(w, 2 * w, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 2 * w)
        flat = 2 * w * (cfg["image"] // 4) ** 2
        self.mu = nn.Linear(flat, cfg["latent"])
        self.logvar = nn.Linear(flat, cfg["latent"])

    def forward(self, x):
        h = F.silu(self.stem(x))
        h = F.silu(self.norm(self.down(h)))
        h = h.flatten(1)
        return self.mu(h), self.logvar(h).clamp(-8.0, 8.0)


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg["width"]
        self.side = cfg["image"] // 4
        self.w2 = 2 * w
        self.fc = nn.Linear(cfg["latent"], self.w2 * self.side**2)
        self.up1 = nn.ConvTranspose2d(self.w2, w, 4, stride=2, padding=1)
        self.up2 = nn.ConvTranspose2d(w, cfg["channels"], 4, stride=2, padding=1)

    def forward(self, z):
        h = self.fc(z).view(-1, self.w2, self.side, self.side)
        h = F.silu(self.up1(h))
        return self.up2(h)


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc = Encoder(cfg)
        self.dec = Decoder(cfg)

    def forward(self, x):
        mu, logvar = self.enc(x)
        eps = torch.randn_like(mu)
        z = mu + eps * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


def kl_divergence(mu, logvar):
    return -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1).mean()


def kl_weight(step, cfg):
    frac = min(1.0, (step + 1) / cfg["kl_warmup"])
    return cfg["kl_weight"] * frac


def blobs(n, size, gen):
    ys, xs = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    c = torch.rand(n, 2, generator=gen) * size
    r = 1.5 + 2.0 * torch.rand(n, 1, 1, generator=gen)
    d2 = (ys - c[:, 0].view(-1, 1, 1)) ** 2 + (xs - c[:, 1].view(-1, 1, 1)) ** 2
    return torch.exp(-d2 / (2 * r * r)).unsqueeze(1)


def main(cfg):
    torch.manual_seed(cfg["seed"])
    xm.set_rng_state(cfg["seed"])
    device = torch_xla.device()
    gen = torch.Generator().manual_seed(cfg["seed"])
    model = VAE(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"], betas=(0.9, 0.99))
    torch_xla.sync()

    logs = []
    for step in range(cfg["steps"]):
        x = blobs(cfg["batch"], cfg["image"], gen).to(device)
        opt.zero_grad(set_to_none=True)
        recon, mu, logvar = model(x)
        rec = F.binary_cross_entropy_with_logits(recon, x, reduction="none")
        rec = rec.sum(dim=(1, 2, 3)).mean()
        kl = kl_divergence(mu, logvar)
        loss = rec + kl_weight(step, cfg) * kl
        loss.backward()
        opt.step()
        torch_xla.sync()
        logs.append((step, loss.item(), rec.item(), kl.item()))

    bits = cfg["image"] ** 2 * math.log(2)
    for step, total, rec, kl in logs:
        print(f"step {step} elbo {-total:.3f} rec {rec / bits:.4f} bpd kl {kl:.3f}")


if __name__ == "__main__":
    main(CFG)
