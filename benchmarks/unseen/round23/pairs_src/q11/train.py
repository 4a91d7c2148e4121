"""Beta-VAE on synthetic 12x12 blobs."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    image_size=12,
    hidden=32,
    latent=6,
    batch_size=16,
    lr=2e-3,
    steps=9,
    kl_warmup_steps=6,
    free_bits=0.02,
    seed=11,
)


def make_blobs(n, size, gen):
    ys, xs = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    cx = torch.randint(2, size - 2, (n, 1, 1), generator=gen)
    cy = torch.randint(2, size - 2, (n, 1, 1), generator=gen)
    r = 1.0 + 2.0 * torch.rand(n, 1, 1, generator=gen)
    img = torch.exp(-((xs - cx) ** 2 + (ys - cy) ** 2) / (2 * r * r))
    return img.reshape(n, -1).float()


class Encoder(nn.Module):
    def __init__(self, dim, hidden, latent):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(dim, hidden),
            nn.LayerNorm(hidden),
            nn.SiLU(),
        )
        self.mu = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)

    def forward(self, x):
        h = self.body(x)
        return self.mu(h), self.logvar(h).clamp(-6.0, 4.0)


class Decoder(nn.Module):
    def __init__(self, dim, hidden, latent):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(latent, hidden),
            nn.SiLU(),
            nn.Linear(hidden, dim),
        )

    def forward(self, z):
        return self.net(z)


class BetaVAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        dim = cfg["image_size"] ** 2
        self.enc = Encoder(dim, cfg["hidden"], cfg["latent"])
        self.dec = Decoder(dim, cfg["hidden"], cfg["latent"])
        self.free_bits = cfg["free_bits"]

    def forward(self, x, eps):
        mu, logvar = self.enc(x)
        z = mu + eps * torch.exp(0.5 * logvar)
        logits = self.dec(z)
        rec = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1).mean()
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp())
        kl = torch.clamp(kl.mean(0), min=self.free_bits).sum()
        return rec, kl


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg["seed"])
        self.gen = torch.Generator().manual_seed(cfg["seed"])
        self.device = torch_xla.device()
        self.model = BetaVAE(cfg).to(self.device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg["lr"])
        self.global_step = 0

    def beta(self):
        return min(1.0, (self.global_step + 1) / self.cfg["kl_warmup_steps"])

    def next_batch(self):
        x = make_blobs(self.cfg["batch_size"], self.cfg["image_size"], self.gen)
        eps = torch.randn(self.cfg["batch_size"], self.cfg["latent"], generator=self.gen)
        return x.to(self.device), eps.to(self.device)

    def train_step(self):
        x, eps = self.next_batch()
        self.opt.zero_grad()
        rec, kl = self.model(x, eps)
        loss = rec + self.beta() * kl
        loss.backward()
        xm.optimizer_step(self.opt, barrier=True)
        self.global_step += 1
        return loss.detach(), rec.detach(), kl.detach()

    def fit(self):
        for _ in range(self.cfg["steps"]):
            loss, rec, kl = self.train_step()
            if self.global_step % 3 == 0:
                print(f"step {self.global_step} elbo {loss.item():.3f} "
                      f"rec {rec.item():.3f} kl {kl.item():.4f}")
            assert math.isfinite(loss.item())


if __name__ == "__main__":
    Trainer(CFG).fit()
