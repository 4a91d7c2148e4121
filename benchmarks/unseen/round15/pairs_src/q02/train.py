# Compressing stellar spectra with a small VAE.
import math

import numpy as np
import torch
from torch import nn
import torch_xla
import torch_xla.debug.metrics as met

CFG = dict(
    n_stars=512, n_pix=96, latent=6, hidden=48, batch=32, epochs=4,
    lr=1e-3, ramp_iters=20, log_every=8, seed=5,
)


def synth_spectra(n, pixels, rng):
    wave = np.linspace(0.0, 1.0, pixels)
    teff = rng.uniform(0.2, 0.9, size=(n, 1))
    cont = np.exp(-((wave[None] - teff) ** 2) / 0.3)
    flux = cont.copy()
    for centre in (0.21, 0.43, 0.58, 0.77):
        depth = rng.uniform(0.05, 0.5, size=(n, 1))
        width = rng.uniform(0.005, 0.02, size=(n, 1))
        flux -= depth * cont * np.exp(-((wave[None] - centre) ** 2) / (2 * width ** 2))
    flux += rng.normal(0, 0.01, size=flux.shape)
    return flux.astype(np.float32)


class SpectrumVAE(nn.Module):
    def __init__(self, pixels, hidden, latent):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(pixels, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU())
        self.mu = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(),
            nn.Linear(hidden, pixels))

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


class Ramp:
    """Linear ramp used for the weight of the prior term."""

    def __init__(self, iters):
        self.iters = iters
        self.n = 0

    def advance(self):
        self.n += 1
        return min(1.0, self.n / self.iters)


def elbo_terms(recon, x, mu, logvar, sigma=0.05):
    nll = 0.5 * ((recon - x) / sigma).pow(2).sum(-1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
    return nll / math.sqrt(x.shape[-1]), kl


def batches(data, size, rng):
    order = rng.permutation(len(data))
    for i in range(0, len(order) - size + 1, size):
        yield torch.from_numpy(data[order[i:i + size]])


def run(cfg):
    torch.manual_seed(cfg["seed"])
    rng = np.random.default_rng(cfg["seed"])
    device = torch_xla.device()
    spectra = synth_spectra(cfg["n_stars"], cfg["n_pix"], rng)
    spectra = (spectra - spectra.mean(0)) / (spectra.std(0) + 1e-4)
    net = SpectrumVAE(cfg["n_pix"], cfg["hidden"], cfg["latent"]).to(device)
    optim = torch.optim.RMSprop(net.parameters(), lr=cfg["lr"], alpha=0.95)
    ramp = Ramp(cfg["ramp_iters"])
    it = 0
    for epoch in range(cfg["epochs"]):
        for x in batches(spectra, cfg["batch"], rng):
            x = x.to(device)
            prior_w = ramp.advance()
            optim.zero_grad()
            recon, mu, logvar = net(x)
            nll, kl = elbo_terms(recon, x, mu, logvar)
            objective = nll + prior_w * kl
            objective.backward()
            optim.step()
            torch_xla.sync()
            it += 1
            if it % cfg["log_every"] == 0:
                print(f"[{epoch}:{it}] nll={nll.item():.3f} kl={kl.item():.3f} w={prior_w:.2f} "
                      f"builds={met.counter_value('UncachedCompile')}")


if __name__ == "__main__":
    run(CFG)
