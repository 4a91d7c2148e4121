"""Variational autoencoder on toy binary images (16x16 blobs)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CONFIG = {
    "image_size": 16,
    "channels": [4, 8],
    "latent": 6,
    "batch_size": 8,
    "lr": 2e-3,
    "weight_decay": 1e-2,
    "kl_warmup_steps": 4,
    "free_bits": 0.004,
    "steps": 6,
    "seed": 17,
}


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c1, c2 = cfg["channels"]
        self.conv1 = nn.Conv2d(1, c1, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(c1, c2, 3, stride=2, padding=1)
        side = cfg["image_size"] // 4
        self.mu = nn.Linear(c2 * side * side, cfg["latent"])
        self.logvar = nn.Linear(c2 * side * side, cfg["latent"])

    def forward(self, x):
        h = F.silu(self.conv1(x))
        h = F.silu(self.conv2(h)).flatten(1)
        return self.mu(h), self.logvar(h).clamp(-8.0, 8.0)


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.size = cfg["image_size"]
        self.fc1 = nn.Linear(cfg["latent"], 32)
        self.fc2 = nn.Linear(32, self.size * self.size)

    def forward(self, z):
        h = F.silu(self.fc1(z))
        return self.fc2(h).view(-1, 1, self.size, self.size)


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder = Encoder(cfg)
        self.decoder = Decoder(cfg)

    def forward(self, x):
        mu, logvar = self.encoder(x)
        std = torch.exp(0.5 * logvar)
        z = mu + std * torch.randn_like(std)
        return self.decoder(z), mu, logvar


def blobs(n, size, gen):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    cx = torch.randint(3, size - 3, (n, 1, 1), generator=gen)
    cy = torch.randint(3, size - 3, (n, 1, 1), generator=gen)
    r = torch.randint(2, 5, (n, 1, 1), generator=gen)
    img = ((xx - cx) ** 2 + (yy - cy) ** 2 <= r ** 2).float()
    return img.unsqueeze(1)


def elbo_terms(model, x, free_bits):
    logits, mu, logvar = model(x)
    recon = F.binary_cross_entropy_with_logits(logits, x, reduction="none")
    recon = recon.flatten(1).sum(1).mean()
    kl = 0.5 * (mu.pow(2) + logvar.exp() - 1.0 - logvar)
    kl = kl.mean(0).clamp(min=free_bits).sum()
    return recon, kl


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        torch.manual_seed(cfg["seed"])
        xm.set_rng_state(cfg["seed"], device=str(self.device))
        self.model = VAE(cfg).to(self.device)
        self.opt = torch.optim.AdamW(
            self.model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"]
        )
        self.gen = torch.Generator().manual_seed(cfg["seed"])

    def kl_weight(self, step):
        return min(1.0, (step + 1) / self.cfg["kl_warmup_steps"])

    def fit(self):
        history = []
        for step in range(self.cfg["steps"]):
            x = blobs(self.cfg["batch_size"], self.cfg["image_size"], self.gen)
            x = x.to(self.device)
            self.opt.zero_grad()
            recon, kl = elbo_terms(self.model, x, self.cfg["free_bits"])
            loss = recon + self.kl_weight(step) * kl
            loss.backward()
            self.opt.step()
            torch_xla.sync()
            history.append((recon.item(), kl.item()))
        return history


if __name__ == "__main__":
    for i, (recon, kl) in enumerate(Trainer(CONFIG).fit()):
        bpd = (recon + kl) / (math.log(2) * CONFIG["image_size"] ** 2)
        print(f"step {i} recon {recon:.3f} kl {kl:.3f} bpd {bpd:.4f}")
