"""Small convolution-free VAE on synthetic blobs, with KL warm-up."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CONFIG = {
    "img": 12,
    "hidden": 48,
    "latent": 6,
    "batch": 16,
    "lr": 2e-3,
    "kl_warmup": 6,
    "free_bits": 0.02,
    "steps": 9,
    "log_every": 3,
}


class Encoder(nn.Module):
    def __init__(self, d_in, hidden, latent):
        super().__init__()
        self.fc1 = nn.Linear(d_in, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.mu = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)

    def forward(self, x):
        h = F.silu(self.fc1(x))
        h = h + F.silu(self.fc2(h))
        return self.mu(h), self.logvar(h).clamp(-8.0, 8.0)


class Decoder(nn.Module):
    def __init__(self, d_out, hidden, latent):
        super().__init__()
        self.inp = nn.Linear(latent, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, d_out)

    def forward(self, z):
        return self.out(F.silu(self.norm(self.inp(z))))


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg["img"] ** 2
        self.enc = Encoder(d, cfg["hidden"], cfg["latent"])
        self.dec = Decoder(d, cfg["hidden"], cfg["latent"])

    def forward(self, x, noise):
        mu, logvar = self.enc(x)
        z = mu + noise * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


class BlobDataset:
    """Gaussian bumps at random places, values in [0, 1]."""

    def __init__(self, size, n, seed=0):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        c = torch.rand(n, 2, generator=g) * size
        d2 = (yy[None] - c[:, :1, None]) ** 2 + (xx[None] - c[:, 1:, None]) ** 2
        self.images = torch.exp(-d2 / 6.0).reshape(n, -1)
        self.gen = g

    def sample(self, bs):
        idx = torch.randint(0, self.images.size(0), (bs,), generator=self.gen)
        return self.images[idx]


class KLWeight:
    """Linear warm-up of the KL weight."""

    def __init__(self, warmup):
        self.warmup = warmup

    def __call__(self, step):
        return min(1.0, (step + 0.5) / self.warmup)


def elbo_terms(logits, x, mu, logvar, free_bits):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1).mean()
    kl_dim = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp())
    kl = kl_dim.mean(0).clamp(min=free_bits).sum()
    return rec, kl


def main(cfg):
    torch.manual_seed(1)
    device = torch_xla.device()
    data = BlobDataset(cfg["img"], 256)
    model = VAE(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"], betas=(0.9, 0.98))
    beta_at = KLWeight(cfg["kl_warmup"])
    torch_xla.sync()

    for step in range(cfg["steps"]):
        x = data.sample(cfg["batch"]).to(device)
        noise = torch.randn(cfg["batch"], cfg["latent"]).to(device)
        beta = beta_at(step)

        opt.zero_grad()
        logits, mu, logvar = model(x, noise)
        rec, kl = elbo_terms(logits, x, mu, logvar, cfg["free_bits"])
        loss = rec + beta * kl
        loss.backward()
        opt.step()
        torch_xla.sync()

        if step % cfg["log_every"] == 0:
            bpd = loss.item() / (cfg["img"] ** 2 * math.log(2))
            print(f"step {step:3d}  beta {beta:.2f}  bits/dim {bpd:.4f}")


if __name__ == "__main__":
    main(CONFIG)
