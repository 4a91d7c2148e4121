"""Beta-VAE on synthetic spectrogram patches, with a linear KL warm-up."""
import argparse
import logging
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

log = logging.getLogger("vae")


@dataclass
class VAEConfig:
    n_bins: int = 48
    hidden: int = 64
    latent: int = 12
    batch_size: int = 16
    lr: float = 2e-3
    min_lr: float = 1e-4
    kl_warmup_steps: int = 6
    total_steps: int = 10
    seed: int = 1234


class SpectrogramVAE(nn.Module):
    def __init__(self, cfg: VAEConfig):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(cfg.n_bins, cfg.hidden),
            nn.LayerNorm(cfg.hidden),
            nn.SiLU(),
            nn.Linear(cfg.hidden, cfg.hidden),
            nn.SiLU(),
        )
        self.to_mu = nn.Linear(cfg.hidden, cfg.latent)
        self.to_logvar = nn.Linear(cfg.hidden, cfg.latent)
        self.decoder = nn.Sequential(
            nn.Linear(cfg.latent, cfg.hidden),
            nn.SiLU(),
            nn.Linear(cfg.hidden, cfg.n_bins),
        )

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.to_mu(h), self.to_logvar(h).clamp(-8.0, 8.0)
        eps = torch.randn_like(mu)
        z = mu + eps * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


class ELBO:
    """Negative evidence lower bound with a warmed-up KL weight."""

    def __init__(self, warmup_steps: int):
        self.warmup_steps = warmup_steps

    def weight(self, step: int) -> float:
        return min(1.0, (step + 1) / self.warmup_steps)

    def __call__(self, recon, x, mu, logvar, step):
        nll = F.mse_loss(recon, x, reduction="none").sum(dim=1).mean()
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1).mean()
        return nll + self.weight(step) * kl


def cosine_lr(step: int, cfg: VAEConfig) -> float:
    t = step / max(1, cfg.total_steps)
    return cfg.min_lr + 0.5 * (cfg.lr - cfg.min_lr) * (1 + math.cos(math.pi * t))


def patches(cfg: VAEConfig):
    g = torch.Generator().manual_seed(cfg.seed)
    basis = torch.randn(6, cfg.n_bins, generator=g)
    while True:
        coef = torch.rand(cfg.batch_size, 6, generator=g)
        yield torch.tanh(coef @ basis)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=VAEConfig.total_steps)
    parser.add_argument("--log-every", type=int, default=5)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")

    cfg = VAEConfig(total_steps=args.steps)
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    model = SpectrogramVAE(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr, betas=(0.9, 0.98))
    criterion = ELBO(cfg.kl_warmup_steps)
    stream = patches(cfg)

    for step in range(cfg.total_steps):
        for group in opt.param_groups:
            group["lr"] = cosine_lr(step, cfg)
        x = next(stream).to(device)
        opt.zero_grad(set_to_none=True)
        recon, mu, logvar = model(x)
        loss = criterion(recon, x, mu, logvar, step)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        torch_xla.sync()
        if (step + 1) % args.log_every == 0:
            log.info("step %d  -elbo %.4f", step + 1, loss.item())

    xm.save(model.state_dict(), "vae_last.pt")


if __name__ == "__main__":
    main()
