"""Conv-VAE on synthetic sprites."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=16)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--latent", type=int, default=12)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--kl-warmup", type=int, default=10)
    return p.parse_args()


class Encoder(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 4, 2, 1)
        self.c2 = nn.Conv2d(8, 16, 4, 2, 1)
        self.fc = nn.Linear(16 * 4 * 4, 48)
        self.mu = nn.Linear(48, latent)
        self.logvar = nn.Linear(48, latent)

    def forward(self, x):
        h = F.leaky_relu(self.c1(x), 0.1)
        h = F.leaky_relu(self.c2(h), 0.1)
        h = F.leaky_relu(self.fc(h.flatten(1)), 0.1)
        return self.mu(h), self.logvar(h)


class Decoder(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.fc1 = nn.Linear(latent, 48)
        self.fc2 = nn.Linear(48, 16 * 4 * 4)
        self.t1 = nn.ConvTranspose2d(16, 8, 4, 2, 1)
        self.t2 = nn.ConvTranspose2d(8, 1, 4, 2, 1)

    def forward(self, z):
        h = F.leaky_relu(self.fc1(z), 0.1)
        h = F.leaky_relu(self.fc2(h), 0.1).view(-1, 16, 4, 4)
        return self.t2(F.leaky_relu(self.t1(h), 0.1))


class VAE(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.encoder = Encoder(latent)
        self.decoder = Decoder(latent)

    def forward(self, x):
        mu, logvar = self.encoder(x)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return self.decoder(z), mu, logvar


def sprites(n, g):
    x = torch.zeros(n, 1, 16, 16)
    pos = torch.randint(0, 11, (n, 2), generator=g)
    for i, (r, c) in enumerate(pos.tolist()):
        x[i, 0, r:r + 5, c:c + 5] = 1.0
    return x


def kl_weight(step, warmup):
    return min(1.0, (step + 1) / warmup)


def elbo(recon, x, mu, logvar, beta):
    rec = F.binary_cross_entropy_with_logits(recon, x, reduction="none").flatten(1).sum(1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return rec + beta * kl, rec, kl


def main():
    args = parse()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    device = torch_xla.device()
    model = VAE(args.latent).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        x = sprites(args.batch, g).to(device)
        recon, mu, logvar = model(x)
        beta = kl_weight(step, args.kl_warmup)
        loss, rec, kl = elbo(recon, x, mu, logvar, beta)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 4 == 0:
            bits = rec.item() / (256 * math.log(2))
            print(f"step {step} beta {beta:.2f} bits/px {bits:.4f} kl {kl.item():.3f}")


if __name__ == "__main__":
    main()
