"""Convolutional VAE on small grey images."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Encoder(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.fc = nn.Linear(16 * 4 * 4, 64)
        self.mu = nn.Linear(64, latent)
        self.logvar = nn.Linear(64, latent)

    def forward(self, x):
        h = F.relu(self.conv1(x))
        h = F.relu(self.conv2(h))
        h = F.relu(self.fc(h.flatten(1)))
        return self.mu(h), self.logvar(h)


class Decoder(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.fc1 = nn.Linear(latent, 64)
        self.fc2 = nn.Linear(64, 16 * 4 * 4)
        self.up1 = nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1)
        self.up2 = nn.ConvTranspose2d(8, 1, 4, stride=2, padding=1)

    def forward(self, z):
        h = F.relu(self.fc2(F.relu(self.fc1(z)))).view(-1, 16, 4, 4)
        return self.up2(F.relu(self.up1(h)))


class VAE(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.enc = Encoder(latent)
        self.dec = Decoder(latent)

    def forward(self, x):
        mu, logvar = self.enc(x)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


def kl_weight(step, warmup):
    return min(1.0, (step + 1) / warmup)


def batches(n, bs):
    for _ in range(n):
        yield torch.rand(bs, 1, 16, 16)


def main():
    torch.manual_seed(0)
    random.seed(0)
    device = torch_xla.device()
    model = VAE().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    warmup = 10
    for step, x in enumerate(batches(14, 16)):
        x = x.to(device)
        beta = kl_weight(step, warmup)
        recon, mu, logvar = model(x)
        rec = F.binary_cross_entropy_with_logits(recon, x, reduction="sum") / x.size(0)
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / x.size(0)
        loss = rec + beta * kld
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 5 == 0:
            print(f"step {step} elbo {-loss.item():.3f} bits/dim {loss.item() / 256 / math.log(2):.4f}")


if __name__ == "__main__":
    main()
