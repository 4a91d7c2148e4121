"""Variational autoencoder for single-cell counts (Poisson likelihood, library-size offset).

The weight of the KL term follows the usual warm-up so that the latent space
does not collapse in the first steps.
"""
from dataclasses import dataclass, field
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    genes: int = 60
    latent: int = 6
    hidden: List[int] = field(default_factory=lambda: [32, 16])
    batches: int = 2
    batch_size: int = 24
    steps: int = 24
    lr: float = 4e-3
    kl_delay: int = 3
    kl_rise: int = 12


def mlp(sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.ELU()]
    return nn.Sequential(*layers)


class CountVAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.encoder = mlp([cfg.genes + cfg.batches] + cfg.hidden)
        self.mu = nn.Linear(cfg.hidden[-1], cfg.latent)
        self.logvar = nn.Linear(cfg.hidden[-1], cfg.latent)
        self.decoder = mlp([cfg.latent + cfg.batches] + cfg.hidden[::-1])
        self.rate = nn.Linear(cfg.hidden[0], cfg.genes)

    def forward(self, counts, batch_id):
        tag = F.one_hot(batch_id, self.cfg.batches).float()
        library = counts.sum(dim=1, keepdim=True)
        h = self.encoder(torch.cat([torch.log1p(counts), tag], dim=1))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        share = F.log_softmax(self.rate(self.decoder(torch.cat([z, tag], dim=1))), dim=1)
        return share + torch.log(library), mu, logvar


def poisson_nll(log_rate, counts):
    """Without the log-factorial, which does not depend on the parameters."""
    return (torch.exp(log_rate) - counts * log_rate).sum(dim=1)


def gaussian_kl(mu, logvar):
    return 0.5 * (mu.square() + logvar.exp() - 1.0 - logvar).sum(dim=1)


class KLWarmup:
    """0 during the delay, then linear up to 1."""

    def __init__(self, delay, rise):
        self.delay = delay
        self.rise = rise
        self.step_count = 0

    def step(self):
        self.step_count += 1

    @property
    def weight(self):
        return min(max(self.step_count - self.delay, 0) / self.rise, 1.0)


def simulate_cells(cfg, cells, generator):
    factors = torch.randn(cells, 3, generator=generator)
    loading = torch.randn(3, cfg.genes, generator=generator)
    depth = torch.rand(cells, 1, generator=generator) * 200 + 50
    batch_id = torch.randint(0, cfg.batches, (cells,), generator=generator)
    shift = 0.3 * torch.randn(cfg.batches, cfg.genes, generator=generator)
    p = torch.softmax(0.7 * factors @ loading + shift[batch_id], dim=1)
    return torch.poisson(depth * p, generator=generator), batch_id


def main():
    cfg = Config()
    torch.manual_seed(101)
    gen = torch.Generator().manual_seed(101)
    device = torch_xla.device()
    counts, batch_id = simulate_cells(cfg, 400, gen)

    vae = CountVAE(cfg).to(device)
    opt = torch.optim.Adam(vae.parameters(), lr=cfg.lr)
    warmup = KLWarmup(cfg.kl_delay, cfg.kl_rise)
    for step in range(cfg.steps):
        pick = torch.randint(0, counts.size(0), (cfg.batch_size,), generator=gen)
        x, b = counts[pick].to(device), batch_id[pick].to(device)
        log_rate, mu, logvar = vae(x, b)
        nll = poisson_nll(log_rate, x).mean()
        kl = gaussian_kl(mu, logvar).mean()
        loss = nll + warmup.weight * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        warmup.step()
        if (step + 1) % 8 == 0:
            print(f"{step + 1:4d} nll {nll.item():8.2f} kl {kl.item():6.3f} w {warmup.weight:.2f}")


if __name__ == "__main__":
    main()
