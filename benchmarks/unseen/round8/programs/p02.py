"""Small beta-VAE on synthetic tabular sensor readings."""
import logging
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("vae")


@dataclass
class VAEConfig:
    seed: int = 3
    features: int = 24
    hidden: int = 32
    latent: int = 4
    batch_size: int = 16
    steps: int = 36
    lr: float = 2e-3
    kl_delay: int = 6
    kl_ramp: int = 15
    log_every: int = 6


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(cfg.features, cfg.hidden), nn.SiLU(),
                                  nn.Linear(cfg.hidden, cfg.hidden), nn.SiLU())
        self.mu = nn.Linear(cfg.hidden, cfg.latent)
        self.logvar = nn.Linear(cfg.hidden, cfg.latent)

    def forward(self, x):
        h = self.body(x)
        return self.mu(h), self.logvar(h).clamp(-6.0, 6.0)


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder = Encoder(cfg)
        self.decoder = nn.Sequential(nn.Linear(cfg.latent, cfg.hidden), nn.SiLU(),
                                     nn.Linear(cfg.hidden, cfg.features))

    def forward(self, x):
        mu, logvar = self.encoder(x)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


class KLSchedule:
    """Zero during the delay, then a linear ramp that is held at its top."""

    def __init__(self, delay, ramp):
        self.delay = delay
        self.ramp = ramp

    def __call__(self, step):
        return min(max(step - self.delay, 0) / self.ramp, 1.0)


def make_data(cfg):
    g = torch.Generator().manual_seed(cfg.seed)
    factors = torch.randn(cfg.batch_size * cfg.steps, cfg.latent, generator=g)
    mix = torch.randn(cfg.latent, cfg.features, generator=g)
    x = torch.tanh(factors @ mix) + 0.05 * torch.randn(len(factors), cfg.features, generator=g)
    return DataLoader(TensorDataset(x), batch_size=cfg.batch_size, shuffle=True, drop_last=True)


def elbo_loss(recon, x, mu, logvar, beta):
    rec = F.mse_loss(recon, x, reduction="none").sum(-1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
    return rec + beta * kl, rec, kl


def main(cfg=VAEConfig()):
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    model = VAE(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    schedule = KLSchedule(cfg.kl_delay, cfg.kl_ramp)
    for step, (x,) in enumerate(make_data(cfg)):
        x = x.to(device)
        beta = schedule(step)
        recon, mu, logvar = model(x)
        loss, rec, kl = elbo_loss(recon, x, mu, logvar, beta)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        torch_xla.sync()
        if step % cfg.log_every == 0:
            log.info("step %3d beta %.2f loss %.3f rec %.3f kl %.3f",
                     step, beta, loss.item(), rec.item(), kl.item())


if __name__ == "__main__":
    main()
