"""Mult-VAE for implicit feedback (one user per row, multinomial likelihood)."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = dict(
    n_items=96,
    hidden=32,
    latent=12,
    batch_users=16,
    lr=1e-3,
    weight_decay=1e-5,
    dropout=0.5,
    anneal_steps=6,
    anneal_cap=1.0,
    steps=10,
)


class MultVAE(nn.Module):
    def __init__(self, n_items, hidden, latent, dropout):
        super().__init__()
        self.enc_in = nn.Linear(n_items, hidden)
        self.enc_out = nn.Linear(hidden, 2 * latent)
        self.dec_in = nn.Linear(latent, hidden)
        self.dec_out = nn.Linear(hidden, n_items)
        self.drop = nn.Dropout(dropout)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.trunc_normal_(m.bias, std=0.001)

    def forward(self, x):
        h = self.drop(F.normalize(x, dim=-1))
        mu, logvar = self.enc_out(torch.tanh(self.enc_in(h))).chunk(2, dim=-1)
        if self.training:
            z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        else:
            z = mu
        return self.dec_out(torch.tanh(self.dec_in(z))), mu, logvar


def multinomial_nll(logits, x):
    return -(F.log_softmax(logits, dim=-1) * x).sum(-1).mean()


def kl_to_prior(mu, logvar):
    return -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()


class Annealer:
    def __init__(self, total, cap):
        self.total = total
        self.cap = cap
        self.n = 0

    def step(self):
        self.n += 1
        return min(self.cap, self.n / self.total)


def interactions(rng, users, n_items):
    pop = 1.0 / np.arange(1, n_items + 1)
    x = (rng.random((users, n_items)) < np.minimum(6 * pop, 0.6)).astype(np.float32)
    x[np.arange(users), rng.integers(0, n_items, users)] = 1.0
    return torch.from_numpy(x)


def main(cfg):
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    dev = torch_xla.device()
    model = MultVAE(cfg["n_items"], cfg["hidden"], cfg["latent"], cfg["dropout"]).to(dev).train()
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    beta = Annealer(cfg["anneal_steps"], cfg["anneal_cap"])
    torch_xla.sync()

    for step in range(cfg["steps"]):
        x = interactions(rng, cfg["batch_users"], cfg["n_items"]).to(dev)
        opt.zero_grad()
        logits, mu, logvar = model(x)
        nll = multinomial_nll(logits, x)
        kl = kl_to_prior(mu, logvar)
        loss = nll + beta.step() * kl
        loss.backward()
        opt.step()
        torch_xla.sync()
        if not math.isfinite(loss.item()):
            raise RuntimeError("diverged")
        print(step, round(loss.item(), 4), round(kl.item(), 4))


if __name__ == "__main__":
    main(CFG)
