"""Sentence VAE on synthetic product reviews: latent space for near-duplicate search."""
import argparse
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("review-vae")


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=60)
    p.add_argument("--seq", type=int, default=12)
    p.add_argument("--dim", type=int, default=24)
    p.add_argument("--latent", type=int, default=8)
    p.add_argument("--cycle", type=int, default=16)
    p.add_argument("--ratio", type=float, default=0.5)
    p.add_argument("--steps", type=int, default=40)
    return p.parse_args()


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.dim)
        self.conv = nn.Conv1d(cfg.dim, cfg.dim, 3, padding=1)
        self.norm = nn.LayerNorm(cfg.dim)
        self.mu = nn.Linear(cfg.dim, cfg.latent)
        self.logvar = nn.Linear(cfg.dim, cfg.latent)

    def forward(self, tok):
        h = self.emb(tok).transpose(1, 2)
        h = F.gelu(self.conv(h)).transpose(1, 2)
        h = self.norm(h).amax(dim=1)
        return self.mu(h), self.logvar(h).clamp(-6, 6)


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.seq = cfg.seq
        self.pos = nn.Parameter(torch.randn(cfg.seq, cfg.dim) * 0.1)
        self.inp = nn.Linear(cfg.latent, cfg.dim)
        self.mid = nn.Linear(cfg.dim, cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.vocab)

    def forward(self, z):
        h = self.inp(z).unsqueeze(1) + self.pos
        h = h + F.silu(self.mid(h))
        return self.out(h)


class KLWeight:
    """Cyclical annealing: linear ramp in the first part of every cycle, then flat."""

    def __init__(self, cycle, ratio):
        self.cycle, self.ratio = cycle, ratio

    def at(self, step):
        tau = ((step % self.cycle) + 1) / self.cycle
        return min(1.0, tau / self.ratio)


def reviews(cfg, batch, seed=0):
    g = torch.Generator().manual_seed(seed)
    while True:
        topic = torch.randint(0, cfg.vocab - 10, (batch, 1), generator=g)
        yield (topic + torch.randint(0, 10, (batch, cfg.seq), generator=g)).long()


def elbo_terms(enc, dec, tok):
    mu, logvar = enc(tok)
    z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
    logits = dec(z)
    rec = F.cross_entropy(logits.flatten(0, 1), tok.flatten())
    kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(dim=1).mean()
    return rec, kl


def main():
    cfg = parse()
    torch.manual_seed(0)
    dev = torch_xla.device()
    enc, dec = Encoder(cfg).to(dev), Decoder(cfg).to(dev)
    params = list(enc.parameters()) + list(dec.parameters())
    opt = torch.optim.Adam(params, lr=3e-3)
    weight = KLWeight(cfg.cycle, cfg.ratio)
    data = reviews(cfg, 16)
    for step in range(cfg.steps):
        tok = next(data).to(dev)
        rec, kl = elbo_terms(enc, dec, tok)
        loss = rec + weight.at(step) * kl
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        xm.mark_step()
        if step % 10 == 9:
            log.info("step %d rec %.3f kl %.3f", step, rec.item(), kl.item())


if __name__ == "__main__":
    main()
