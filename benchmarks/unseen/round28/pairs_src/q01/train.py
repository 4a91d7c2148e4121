"""Small sequence VAE on synthetic sensor windows."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    channels=6,
    window=24,
    hidden=48,
    latent=8,
    batch=16,
    lr=2e-3,
    kl_start=0.0,
    kl_end=1.0,
    kl_anneal_steps=6,
    free_bits=0.02,
    seed=11,
)


def synth_windows(n, cfg, rng):
    t = np.linspace(0, 2 * math.pi, cfg["window"])
    phase = rng.uniform(0, 2 * math.pi, size=(n, cfg["channels"], 1))
    freq = rng.uniform(0.5, 3.0, size=(n, cfg["channels"], 1))
    x = np.sin(freq * t[None, None] + phase)
    x += 0.05 * rng.standard_normal(x.shape)
    return torch.from_numpy(x.astype(np.float32))


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.conv1 = nn.Conv1d(cfg["channels"], 16, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(16, 24, 3, stride=2, padding=1)
        self.norm = nn.LayerNorm(24 * cfg["window"] // 4)
        self.head = nn.Linear(24 * cfg["window"] // 4, 2 * cfg["latent"])

    def forward(self, x):
        h = F.silu(self.conv1(x))
        h = F.silu(self.conv2(h)).flatten(1)
        mu, logvar = self.head(self.norm(h)).chunk(2, dim=-1)
        return mu, logvar.clamp(-8.0, 4.0)


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.net = nn.Sequential(
            nn.Linear(cfg["latent"], cfg["hidden"]),
            nn.SiLU(),
            nn.Linear(cfg["hidden"], cfg["hidden"]),
            nn.SiLU(),
            nn.Linear(cfg["hidden"], cfg["channels"] * cfg["window"]),
        )

    def forward(self, z):
        return self.net(z).view(-1, self.cfg["channels"], self.cfg["window"])


class SensorVAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc = Encoder(cfg)
        self.dec = Decoder(cfg)

    def forward(self, x):
        mu, logvar = self.enc(x)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


class LinearAnneal:
    def __init__(self, start, end, steps):
        self.start, self.end, self.steps = start, end, steps

    def __call__(self, step):
        frac = min(1.0, (step + 1) / self.steps)
        return self.start + frac * (self.end - self.start)


def elbo(recon, x, mu, logvar, beta, free_bits):
    rec = F.mse_loss(recon, x, reduction="none").flatten(1).sum(1).mean()
    kl_dim = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp())
    kl = kl_dim.mean(0).clamp(min=free_bits).sum()
    return rec + beta * kl, rec, kl


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=9)
    args = ap.parse_args()
    torch.manual_seed(CFG["seed"])
    rng = np.random.default_rng(CFG["seed"])
    device = torch_xla.device()
    model = SensorVAE(CFG).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=CFG["lr"])
    beta_at = LinearAnneal(CFG["kl_start"], CFG["kl_end"], CFG["kl_anneal_steps"])
    torch_xla.sync()

    for step in range(args.steps):
        x = synth_windows(CFG["batch"], CFG, rng).to(device)
        recon, mu, logvar = model(x)
        loss, rec, kl = elbo(recon, x, mu, logvar, beta_at(step), CFG["free_bits"])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        xm.optimizer_step(opt)
        torch_xla.sync()
        if step % 3 == 2:
            print(f"step {step} loss {loss.item():.3f} rec {rec.item():.3f} kl {kl.item():.3f}")


if __name__ == "__main__":
    main()
