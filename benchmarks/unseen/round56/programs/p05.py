"""Unpaired alignment of two single-cell assays: two encoders, one shared space, entropic optimal transport loss."""
import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch_xla


class Config(NamedTuple):
    genes: int = 40
    peaks: int = 24
    latent: int = 6
    batch: int = 24
    steps: int = 30
    epsilon: float = 0.1
    tol: float = 1e-3
    max_iter: int = 60
    lr: float = 5e-3
    seed: int = 33


class Encoder(nn.Module):
    def __init__(self, n_in, n_out, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Linear(hidden, n_out))

    def forward(self, x):
        return self.net(torch.log1p(x))


class Decoder(nn.Module):
    def __init__(self, n_in, n_out, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.GELU(), nn.Linear(hidden, n_out), nn.Softplus())

    def forward(self, z):
        return self.net(z)


def squared_distances(a, b):
    return (a.pow(2).sum(1, keepdim=True) + b.pow(2).sum(1)[None, :] - 2.0 * a @ b.T).clamp(min=0.0)


@torch.no_grad()
def sinkhorn_plan(cost, epsilon, tol, max_iter):
    """Log-domain Sinkhorn for uniform marginals. Returns the transport plan."""
    n, m = cost.shape
    log_mu, log_nu = -math.log(n), -math.log(m)
    f = torch.zeros(n, device=cost.device)
    g = torch.zeros(m, device=cost.device)
    for _ in range(max_iter):
        previous = f
        f = epsilon * (log_mu - torch.logsumexp((g[None, :] - cost) / epsilon, 1))
        g = epsilon * (log_nu - torch.logsumexp((f[:, None] - cost) / epsilon, 0))
        change = (f - previous).abs().max()
        if change.item() < tol:
            break
    return torch.exp((f[:, None] + g[None, :] - cost) / epsilon)


def alignment_loss(za, zb, cfg):
    cost = squared_distances(za, zb)
    scale = cost.detach().mean().clamp(min=1e-6)
    plan = sinkhorn_plan(cost.detach() / scale, cfg.epsilon, cfg.tol, cfg.max_iter)
    return (plan * cost).sum()


def spread_penalty(z):
    std = z.var(0).add(1e-4).sqrt()
    return torch.relu(1.0 - std).mean()


class Cells:
    """Both assays read the same hidden cell state, never for the same cell."""

    def __init__(self, cfg):
        self.rng = torch.Generator().manual_seed(cfg.seed)
        self.centers = 1.5 * torch.randn(5, cfg.latent, generator=self.rng)
        self.to_rna = torch.randn(cfg.latent, cfg.genes, generator=self.rng) / cfg.latent ** 0.5
        self.to_atac = torch.randn(cfg.latent, cfg.peaks, generator=self.rng) / cfg.latent ** 0.5
        self.batch = cfg.batch

    def _states(self):
        kind = torch.randint(0, 5, (self.batch,), generator=self.rng)
        return self.centers[kind] + 0.4 * torch.randn(self.batch, self.centers.shape[1], generator=self.rng)

    def draw(self):
        rna = torch.poisson(torch.exp(0.6 * self._states() @ self.to_rna), generator=self.rng)
        atac = torch.poisson(torch.exp(0.5 * self._states() @ self.to_atac), generator=self.rng)
        return rna, atac


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    cells = Cells(cfg)
    nets = nn.ModuleDict({
        "rna_enc": Encoder(cfg.genes, cfg.latent), "rna_dec": Decoder(cfg.latent, cfg.genes),
        "atac_enc": Encoder(cfg.peaks, cfg.latent), "atac_dec": Decoder(cfg.latent, cfg.peaks),
    }).to(device)
    optimizer = torch.optim.AdamW(nets.parameters(), lr=cfg.lr, weight_decay=1e-3)
    nll = nn.PoissonNLLLoss(log_input=False)

    for step in range(cfg.steps):
        rna, atac = (t.to(device) for t in cells.draw())
        za, zb = nets["rna_enc"](rna), nets["atac_enc"](atac)
        rec = nll(nets["rna_dec"](za), rna) + nll(nets["atac_dec"](zb), atac)
        match = alignment_loss(za, zb, cfg)
        loss = rec + 0.2 * match + 0.5 * (spread_penalty(za) + spread_penalty(zb))

        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if step % 10 == 0 or step == cfg.steps - 1:
            print(f"{step:3d}  rec {rec.item():.4f}  ot {match.item():.4f}")


if __name__ == "__main__":
    main()
