"""Variational autoencoder for infrared spectra.

The weight of the KL term follows the cyclical schedule of Fu et al. (2019):
every cycle starts at zero, rises linearly over its first half and stays at one
for the second half.  At the end of each cycle the model is validated and a few
spectra are drawn from the prior.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 7
CHANNELS = 96
LATENT = 6
BATCH = 32
CYCLE = 12
CYCLES = 5
RAMP = 0.5


def make_spectra(n, rng):
    grid = np.linspace(0, 1, CHANNELS, dtype=np.float32)
    out = np.zeros((n, CHANNELS), dtype=np.float32)
    for _ in range(4):
        pos = rng.uniform(0.1, 0.9, (n, 1))
        wid = rng.uniform(0.01, 0.05, (n, 1))
        amp = rng.gamma(2.0, 0.3, (n, 1))
        out += (amp / (1 + ((grid - pos) / wid) ** 2)).astype(np.float32)
    return torch.from_numpy(out / out.max(axis=1, keepdims=True))


class SpectrumVAE(nn.Module):
    def __init__(self, channels=CHANNELS, hidden=64, latent=LATENT):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Linear(channels, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU())
        self.to_mu = nn.Linear(hidden, latent)
        self.to_logvar = nn.Linear(hidden, latent)
        self.dec = nn.Sequential(
            nn.Linear(latent, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, channels))

    def encode(self, x):
        h = self.enc(x)
        return self.to_mu(h), self.to_logvar(h).clamp(-8.0, 8.0)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.dec(z)), mu, logvar


def kl_weight(step):
    phase = (step % CYCLE) / CYCLE
    return min(1.0, phase / RAMP)


def elbo_terms(model, x):
    recon, mu, logvar = model(x)
    rec = F.mse_loss(recon, x, reduction="none").sum(-1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
    return rec, kl


@torch.no_grad()
def validate(model, batches, device):
    model.eval()
    rec_sum = torch.zeros((), device=device)
    kl_sum = torch.zeros((), device=device)
    for x in batches:
        rec, kl = elbo_terms(model, x.to(device))
        rec_sum += rec
        kl_sum += kl
        torch_xla.sync()
    model.train()
    return rec_sum.item() / len(batches), kl_sum.item() / len(batches)


@torch.no_grad()
def sample(model, n, device):
    z = torch.randn(n, LATENT, device=device)
    out = torch.sigmoid(model.dec(z))
    torch_xla.sync()
    return out.cpu().numpy()


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = xm.xla_device()

    train = make_spectra(BATCH * CYCLE, rng)
    val = make_spectra(BATCH * 2, rng).split(BATCH)

    model = SpectrumVAE().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    history = []

    step = 0
    for cycle in range(CYCLES):
        order = torch.from_numpy(rng.permutation(len(train)))
        running = torch.zeros((), device=device)
        for chunk in order.split(BATCH):
            x = train[chunk].to(device)
            beta = kl_weight(step)

            opt.zero_grad()
            rec, kl = elbo_terms(model, x)
            loss = rec + beta * kl
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()

            running += loss.detach()
            xm.mark_step()
            step += 1

        rec, kl = validate(model, val, device)
        drawn = sample(model, 8, device)
        history.append((cycle, rec, kl))
        print(f"cycle {cycle}: train {running.item() / CYCLE:.3f} "
              f"val rec {rec:.3f} kl {kl:.3f} "
              f"bits {(rec + kl) / math.log(2):.2f} "
              f"sample peak {drawn.max():.2f}")

    best = min(history, key=lambda r: r[1] + r[2])
    print(f"best cycle {best[0]}")


if __name__ == "__main__":
    main()
