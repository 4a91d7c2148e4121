"""Gene-regulatory autoencoder: every latent unit is a transcription factor and only talks to the genes it is known to bind.

The wiring comes from a binding table; an L1 proximal step thins the edges out while the network is trained on log-counts.
"""
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    genes: int = 120
    factors: int = 18
    cells: int = 480
    batch: int = 40
    steps: int = 24
    lr: float = 1e-2
    density: float = 0.2
    l1: float = 5e-2
    seed: int = 13
    report: int = 8


def binding_table(cfg, rng):
    table = rng.random((cfg.factors, cfg.genes)) < cfg.density
    table[rng.integers(0, cfg.factors, cfg.genes), np.arange(cfg.genes)] = True
    return table.astype(np.float32)


def simulate_cells(cfg, table, rng):
    activity = rng.gamma(1.5, 1.0, (cfg.cells, cfg.factors))
    weight = table * rng.normal(0.0, 0.5, table.shape)
    rate = np.exp(np.clip(activity @ weight / np.sqrt(cfg.factors), -3, 3))
    depth = rng.lognormal(1.0, 0.3, (cfg.cells, 1))
    counts = rng.poisson(rate * depth)
    size = counts.sum(1, keepdims=True) + 1
    return np.log1p(counts / size * np.median(size)).astype(np.float32)


class RegulatoryAutoencoder(nn.Module):
    def __init__(self, table):
        super().__init__()
        factors, genes = table.shape
        wiring = torch.from_numpy(table)
        self.register_buffer("wiring", wiring)
        self.encoder = nn.Linear(genes, factors)
        self.decoder = nn.Linear(factors, genes)
        self.norm = nn.LayerNorm(genes)
        with torch.no_grad():
            self.encoder.weight.mul_(wiring)
            self.decoder.weight.mul_(wiring.t())

    def forward(self, x):
        activity = F.softplus(self.encoder(self.norm(x)))
        return self.decoder(activity), activity


class WiredTrainer:
    def __init__(self, model, cfg):
        self.model = model
        self.cfg = cfg
        self.optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, cfg.steps)

    def keep_wiring(self):
        wiring = self.model.wiring
        self.model.encoder.weight.register_hook(lambda g: g * wiring)
        self.model.decoder.weight.register_hook(lambda g: g * wiring.t())

    def losses(self, x):
        recon, activity = self.model(x)
        fit = F.mse_loss(recon, x)
        usage = activity.mean(0)
        balance = (usage - usage.mean()).square().mean()
        return fit, balance

    @torch.no_grad()
    def shrink(self):
        lr = self.optimizer.param_groups[0]["lr"]
        for w in (self.model.encoder.weight, self.model.decoder.weight):
            w.copy_(F.relu(w.abs() - lr * self.cfg.l1) * w.sign())

    def step(self, x):
        self.model.train()
        self.keep_wiring()
        self.optimizer.zero_grad()
        fit, balance = self.losses(x)
        (fit + 0.01 * balance).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        xm.optimizer_step(self.optimizer)
        self.scheduler.step()
        self.shrink()
        return fit.detach()

    @torch.no_grad()
    def edges(self):
        w = self.model.decoder.weight
        return (w.abs() > 1e-4).sum()


def minibatches(data, size, rng):
    while True:
        order = rng.permutation(len(data))
        for start in range(0, len(order) - size + 1, size):
            yield torch.from_numpy(data[order[start:start + size]])


def main():
    cfg = Config()
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    device = torch_xla.device()

    table = binding_table(cfg, rng)
    cells = simulate_cells(cfg, table, rng)
    model = RegulatoryAutoencoder(table).to(device)
    trainer = WiredTrainer(model, cfg)

    stream = minibatches(cells, cfg.batch, rng)
    running = None
    for it in range(1, cfg.steps + 1):
        fit = trainer.step(next(stream).to(device))
        torch_xla.sync()
        if it % cfg.report == 0:
            value = fit.item()
            running = value if running is None else 0.7 * running + 0.3 * value
            print(f"step {it:3d}  reconstruction {running:.4f}  edges {int(trainer.edges())} of {int(table.sum())}")


if __name__ == "__main__":
    main()
