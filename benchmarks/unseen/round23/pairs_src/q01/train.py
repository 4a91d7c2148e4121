"""Sequence VAE on synthetic gene-expression profiles (counts, Poisson head with per-gene offset)."""
import dataclasses
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclasses.dataclass
class Config:
    n_genes: int = 48
    hidden: int = 32
    latent: int = 6
    n_batches: int = 3
    batch_size: int = 16
    steps: int = 10
    lr: float = 2e-3
    weight_decay: float = 1e-4
    kl_start: float = 0.1
    kl_warmup: int = 6
    seed: int = 7


def fc_block(i, o):
    return nn.Sequential(nn.Linear(i, o), nn.LayerNorm(o), nn.SiLU())


class Encoder(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.body = nn.Sequential(
            fc_block(cfg.n_genes, cfg.hidden), fc_block(cfg.hidden, cfg.hidden))
        self.mean = nn.Linear(cfg.hidden, cfg.latent)
        self.logvar = nn.Linear(cfg.hidden, cfg.latent)

    def forward(self, x):
        h = self.body(torch.log1p(x))
        return self.mean(h), self.logvar(h).clamp(-8.0, 8.0)


class Decoder(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.body = fc_block(cfg.latent + cfg.n_batches, cfg.hidden)
        self.scale = nn.Linear(cfg.hidden, cfg.n_genes)
        self.gene_offset = nn.Parameter(torch.zeros(cfg.n_genes))

    def forward(self, z, batch_onehot, library):
        h = self.body(torch.cat([z, batch_onehot], dim=-1))
        rho = torch.softmax(self.scale(h), dim=-1)
        return rho * library * self.gene_offset.exp()


def poisson_nll(x, mu, eps=1e-6):
    return (mu - x * torch.log(mu + eps)).sum(-1)


class ExpressionVAE(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.encoder = Encoder(cfg)
        self.decoder = Decoder(cfg)

    def loss(self, x, batch_onehot, noise, kl_weight):
        mean, logvar = self.encoder(x)
        z = mean + torch.exp(0.5 * logvar) * noise
        library = x.sum(-1, keepdim=True)
        mu = self.decoder(z, batch_onehot, library)
        rec = poisson_nll(x, mu)
        kl = 0.5 * (mean.pow(2) + logvar.exp() - 1.0 - logvar).sum(-1)
        total = (rec + kl_weight * kl).mean()
        return total, rec.mean().detach(), kl.mean().detach()


def kl_schedule(cfg, step):
    frac = min(step / cfg.kl_warmup, 1.0)
    return cfg.kl_start + (1.0 - cfg.kl_start) * frac


def synthetic(cfg, device):
    g = torch.Generator().manual_seed(cfg.seed)
    profiles = torch.rand(4, cfg.n_genes, generator=g) * 6
    while True:
        kind = torch.randint(0, 4, (cfg.batch_size,), generator=g)
        x = torch.poisson(profiles[kind], generator=g) + 0.0
        b = F.one_hot(torch.randint(0, cfg.n_batches, (cfg.batch_size,), generator=g), cfg.n_batches)
        eps = torch.randn(cfg.batch_size, cfg.latent, generator=g)
        yield x.to(device), b.float().to(device), eps.to(device)


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    model = ExpressionVAE(cfg).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    data = synthetic(cfg, device)
    torch_xla.sync()
    for step in range(cfg.steps):
        x, b, eps = next(data)
        w = kl_schedule(cfg, step)
        opt.zero_grad(set_to_none=True)
        total, rec, kl = model.loss(x, b, eps, w)
        total.backward()
        xm.optimizer_step(opt, barrier=True)
        if not math.isfinite(total.item()):
            raise RuntimeError(f"diverged at step {step}")
        print(f"step {step} w={w:.2f} rec={rec.item():.3f} kl={kl.item():.3f}")


if __name__ == "__main__":
    main()
