"""Variational autoencoder for Raman spectra of mineral mixtures.

Optimised with RAdam inside Lookahead; the KL weight is warmed up linearly.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CHANNELS = 128
MINERALS = 5


class SpectraBank:
    """Mixtures of mineral end members with Lorentzian peaks and a baseline."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        shift = torch.linspace(0.0, 1.0, CHANNELS)
        peaks = torch.rand(MINERALS, 4, 1, generator=self.gen)
        width = 0.008 + 0.02 * torch.rand(MINERALS, 4, 1, generator=self.gen)
        height = 0.3 + torch.rand(MINERALS, 4, 1, generator=self.gen)
        lines = height / (1.0 + ((shift - peaks) / width) ** 2)
        self.members = lines.sum(dim=1)
        self.shift = shift

    def sample(self, n):
        raw = torch.rand(n, MINERALS, generator=self.gen) ** 3
        fractions = raw / raw.sum(dim=1, keepdim=True)
        slope = 0.2 * torch.randn(n, 1, generator=self.gen)
        noise = 0.02 * torch.randn(n, CHANNELS, generator=self.gen)
        return fractions @ self.members + slope * self.shift + noise


class SpectralVAE(nn.Module):
    def __init__(self, latent=6, hidden=48):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(CHANNELS, hidden), nn.SiLU(), nn.Linear(hidden, 2 * latent))
        self.dec = nn.Sequential(nn.Linear(latent, hidden), nn.SiLU(), nn.Linear(hidden, CHANNELS))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=1)
        if self.training:
            z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        else:
            z = mu
        return self.dec(z), mu, logvar


def elbo_terms(recon, x, mu, logvar):
    rec = F.mse_loss(recon, x, reduction="none").sum(dim=1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1).mean()
    return rec, kl


class Lookahead:
    """k steps forward, one step back (Zhang et al. 2019)."""

    def __init__(self, base, k=4, alpha=0.5):
        self.base = base
        self.k = k
        self.alpha = alpha
        self.count = 0
        self.slow = [[p.detach().clone() for p in group["params"]] for group in base.param_groups]

    def zero_grad(self):
        self.base.zero_grad()

    @torch.no_grad()
    def step(self):
        self.base.step()
        self.count += 1
        if self.count % self.k:
            return
        for group, slow in zip(self.base.param_groups, self.slow):
            for p, s in zip(group["params"], slow):
                s.add_(p - s, alpha=self.alpha)
                p.copy_(s)


def kl_weight(step, warmup):
    return min(1.0, step / warmup)


@torch.no_grad()
def evaluate(model, spectra):
    model.eval()
    recon, mu, logvar = model(spectra)
    rec, kl = elbo_terms(recon, spectra, mu, logvar)
    torch_xla.sync()
    model.train()
    return rec.item(), kl.item()


def main():
    torch.manual_seed(53)
    device = torch_xla.device()
    bank = SpectraBank(seed=4)
    holdout = bank.sample(64).to(device)

    model = SpectralVAE().to(device)
    radam = torch.optim.RAdam(model.parameters(), lr=1e-2, weight_decay=1e-5)
    optimizer = Lookahead(radam)
    gamma = torch.optim.lr_scheduler.ExponentialLR(radam, gamma=0.985)

    warmup = 10
    model.train()
    for step in range(60):
        x = bank.sample(32).to(device)
        recon, mu, logvar = model(x)
        rec, kl = elbo_terms(recon, x, mu, logvar)
        beta = kl_weight(step, warmup)
        loss = rec + beta * kl

        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        gamma.step()
        torch_xla.sync()

        if (step + 1) % 10 == 0:
            held_rec, held_kl = evaluate(model, holdout)
            print(f"step {step + 1:3d}  beta {beta:.2f}  train {rec.item():.3f}/{kl.item():.3f}  "
                  f"holdout {held_rec:.3f}/{held_kl:.3f}")


if __name__ == "__main__":
    main()
