"""Convolutional VAE on random blobs.

The KL term is phased in: ``beta`` stays at its start value for ``hold`` steps and then
climbs linearly to ``beta_max``.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HP = {
    "latent": 6,
    "channels": (8, 16),
    "size": 16,
    "batch": 8,
    "beta_start": 0.0,
    "beta_max": 0.5,
    "hold": 4,
    "ramp": 4,
    "lr": 2e-3,
    "steps": 8,
}


def blobs(n, size, gen):
    centre = torch.rand(n, 2, 1, 1, generator=gen) * size
    width = 1.5 + 2 * torch.rand(n, 1, 1, generator=gen)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    d2 = (yy - centre[:, 0]) ** 2 + (xx - centre[:, 1]) ** 2
    return torch.exp(-d2 / (2 * width ** 2)).unsqueeze(1)


class VAE(nn.Module):
    def __init__(self, hp):
        super().__init__()
        c1, c2 = hp["channels"]
        self.grid = hp["size"] // 4
        self.c2 = c2
        flat = c2 * self.grid ** 2
        self.conv1 = nn.Conv2d(1, c1, 4, 2, 1)
        self.conv2 = nn.Conv2d(c1, c2, 4, 2, 1)
        self.to_stats = nn.Linear(flat, 2 * hp["latent"])
        self.from_z = nn.Linear(hp["latent"], flat)
        self.deconv1 = nn.ConvTranspose2d(c2, c1, 4, 2, 1)
        self.deconv2 = nn.ConvTranspose2d(c1, 1, 4, 2, 1)

    def encode(self, x):
        h = F.leaky_relu(self.conv2(F.leaky_relu(self.conv1(x), 0.1)), 0.1)
        mu, logvar = self.to_stats(h.flatten(1)).chunk(2, dim=1)
        return mu, logvar.clamp(-8, 8)

    def decode(self, z):
        h = F.leaky_relu(self.from_z(z), 0.1).view(-1, self.c2, self.grid, self.grid)
        return self.deconv2(F.leaky_relu(self.deconv1(h), 0.1))

    def forward(self, x, eps):
        mu, logvar = self.encode(x)
        return self.decode(mu + torch.exp(0.5 * logvar) * eps), mu, logvar


def beta_at(step, hp):
    if step < hp["hold"]:
        return hp["beta_start"]
    frac = min(1.0, (step - hp["hold"] + 1) / hp["ramp"])
    return hp["beta_start"] + frac * (hp["beta_max"] - hp["beta_start"])


def elbo(recon_logits, x, mu, logvar, beta):
    rec = F.binary_cross_entropy_with_logits(recon_logits, x, reduction="none").sum((1, 2, 3)).mean()
    kl = 0.5 * (mu.pow(2) + logvar.exp() - 1.0 - logvar).sum(1).mean()
    return rec + beta * kl, rec, kl


def fit(hp):
    torch.manual_seed(2)
    device = torch_xla.device()
    vae = VAE(hp).to(device)
    opt = torch.optim.Adam(vae.parameters(), lr=hp["lr"], betas=(0.9, 0.99))
    gen = torch.Generator().manual_seed(8)
    history = []
    for step in range(hp["steps"]):
        with torch_xla.step():
            x = blobs(hp["batch"], hp["size"], gen).to(device)
            eps = torch.randn(hp["batch"], hp["latent"], generator=gen).to(device)
            logits, mu, logvar = vae(x, eps)
            loss, rec, kl = elbo(logits, x, mu, logvar, beta_at(step, hp))
            opt.zero_grad()
            loss.backward()
            opt.step()
            history.append(torch.stack([loss.detach(), rec.detach(), kl.detach()]))
        print(step, [round(v, 3) for v in history[-1].tolist()])
    return history


if __name__ == "__main__":
    fit(HP)
