import argparse

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.distributed.parallel_loader as pl


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--latent", type=int, default=6)
    ap.add_argument("--hidden", type=int, default=24)
    ap.add_argument("--features", type=int, default=20)
    ap.add_argument("--bs", type=int, default=16)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--wd", type=float, default=1e-4)
    ap.add_argument("--kl-warmup", type=int, default=5)
    ap.add_argument("--free-bits", type=float, default=0.05)
    ap.add_argument("--epochs", type=int, default=2)
    return ap.parse_args()


class MLP(nn.Sequential):
    def __init__(self, i, h, o):
        super().__init__(nn.Linear(i, h), nn.LayerNorm(h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, o))


class CountVAE(nn.Module):
    """Poisson VAE for count vectors."""

    def __init__(self, features, hidden, latent):
        super().__init__()
        self.enc = MLP(features, hidden, 2 * latent)
        self.dec = MLP(latent, hidden, features)

    def forward(self, x, noise):
        mu, logvar = self.enc(torch.log1p(x)).chunk(2, dim=-1)
        logvar = logvar.clamp(-6.0, 4.0)
        z = mu + torch.exp(0.5 * logvar) * noise
        return self.dec(z), mu, logvar


def elbo_terms(log_rate, x, mu, logvar, free_bits):
    rec = F.poisson_nll_loss(log_rate, x, log_input=True, reduction="none").sum(-1).mean()
    kl = 0.5 * (mu.pow(2) + logvar.exp() - 1.0 - logvar)
    kl = kl.mean(0).clamp(min=free_bits).sum()
    return rec, kl


def kl_weight(step, warmup):
    return min(1.0, (step + 1) / (warmup + 1))


def make_data(features, latent, n=64, seed=3):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(latent, features)) * 0.5
    x = rng.poisson(np.exp(rng.normal(size=(n, latent)) @ w)).clip(0, 30)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(rng.normal(size=(n, latent)), dtype=torch.float32)


def main():
    args = get_args()
    torch.manual_seed(0)
    dev = torch_xla.device()
    x, eps = make_data(args.features, args.latent)
    loader = pl.MpDeviceLoader(DataLoader(TensorDataset(x, eps), batch_size=args.bs, shuffle=False), dev)

    model = CountVAE(args.features, args.hidden, args.latent).to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.wd)
    step = 0
    history = []
    for epoch in range(args.epochs):
        for xb, nb in loader:
            beta = kl_weight(step, args.kl_warmup)
            log_rate, mu, logvar = model(xb, nb)
            rec, kl = elbo_terms(log_rate, xb, mu, logvar, args.free_bits)
            loss = rec + beta * kl
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            history.append((rec.detach(), kl.detach()))
            step += 1
    r, k = history[-1]
    print("rec %.3f kl %.3f" % (r.item(), k.item()))


if __name__ == "__main__":
    main()
