import argparse
import math

import torch
from torch import nn, optim
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=16)
p.add_argument("--warmup", type=int, default=10)
p.add_argument("--zdim", type=int, default=6)
p.add_argument("--batch", type=int, default=32)
p.add_argument("--lr", type=float, default=2e-3)
p.add_argument("--free-bits", type=float, default=0.05)
args = p.parse_args()

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self, din, zdim):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(din, 48), nn.LayerNorm(48), nn.SiLU(),
            nn.Linear(48, 32), nn.LayerNorm(32), nn.SiLU(),
        )
        self.mu = nn.Linear(32, zdim)
        self.logvar = nn.Linear(32, zdim)

    def forward(self, x):
        h = self.body(x)
        return self.mu(h), self.logvar(h).clamp(-8.0, 4.0)


class Decoder(nn.Module):
    def __init__(self, dout, zdim):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(zdim, 32), nn.SiLU(), nn.Linear(32, 48), nn.SiLU(), nn.Linear(48, dout))

    def forward(self, z):
        return self.body(z)


class VAE(nn.Module):
    def __init__(self, din, zdim):
        super().__init__()
        self.enc = Encoder(din, zdim)
        self.dec = Decoder(din, zdim)

    def forward(self, x, eps):
        mu, logvar = self.enc(x)
        z = mu + eps * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


def elbo(logits, x, mu, logvar, kl_weight):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1).mean()
    kl_dim = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean(0)
    kl = torch.clamp(kl_dim, min=args.free_bits).sum()
    return rec + kl_weight * kl, rec, kl


def synthetic_digits(n, side=8):
    t = torch.rand(n, 2) * 2 * math.pi
    yy, xx = torch.meshgrid(torch.linspace(0, 1, side), torch.linspace(0, 1, side), indexing="ij")
    img = torch.sin(4 * xx[None] + t[:, :1, None]) * torch.cos(3 * yy[None] + t[:, 1:, None])
    return (img > 0).float().view(n, -1)


def main():
    device = xm.xla_device()
    model = VAE(64, args.zdim).to(device)
    opt = optim.Adam(model.parameters(), lr=args.lr)
    data = synthetic_digits(512)
    for step in range(args.steps):
        idx = torch.randint(0, len(data), (args.batch,))
        x = data[idx].to(device)
        eps = torch.randn(args.batch, args.zdim).to(device)
        beta = min(1.0, (step + 1) / args.warmup)
        logits, mu, logvar = model(x, eps)
        loss, rec, kl = elbo(logits, x, mu, logvar, beta)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        xm.mark_step()
        if step % 5 == 0:
            print(f"[{step:3d}] beta={beta:.2f} rec={rec.item():.3f} kl={kl.item():.3f}")


if __name__ == "__main__":
    main()
