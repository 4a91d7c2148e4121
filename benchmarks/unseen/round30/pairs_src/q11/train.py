"""Beta-VAE on synthetic binarised glyphs."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

CONFIG = {
    "seed": 7,
    "image_size": 16,
    "channels": 12,
    "latent_dim": 8,
    "batch_size": 16,
    "num_examples": 96,
    "lr": 2e-3,
    "kl": {"warmup_steps": 4, "free_bits": 0.02},
}


class Glyphs(Dataset):
    """Random strokes, drawn once and kept in memory."""

    def __init__(self, n, size, seed):
        rng = np.random.default_rng(seed)
        self.images = np.zeros((n, 1, size, size), dtype=np.float32)
        for img in self.images:
            for _ in range(3):
                r, c = rng.integers(0, size, 2)
                if rng.random() < 0.5:
                    img[0, r, c:c + 6] = 1.0
                else:
                    img[0, r:r + 6, c] = 1.0

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i])


class Encoder(nn.Module):

    def __init__(self, channels, latent_dim, size):
        super().__init__()
        self.c1 = nn.Conv2d(1, channels, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.head = nn.Linear(2 * channels * (size // 4)**2, 2 * latent_dim)

    def forward(self, x):
        h = F.silu(self.c1(x))
        h = F.silu(self.c2(h))
        mu, logvar = self.head(h.flatten(1)).chunk(2, dim=-1)
        return mu, logvar.clamp(-8.0, 8.0)


class Decoder(nn.Module):

    def __init__(self, channels, latent_dim, size):
        super().__init__()
        self.side = size // 4
        self.channels = channels
        self.proj = nn.Linear(latent_dim, 2 * channels * self.side**2)
        self.up1 = nn.ConvTranspose2d(2 * channels, channels, 4, 2, 1)
        self.up2 = nn.ConvTranspose2d(channels, 1, 4, 2, 1)

    def forward(self, z):
        h = F.silu(self.proj(z))
        h = h.view(-1, 2 * self.channels, self.side, self.side)
        return self.up2(F.silu(self.up1(h)))


class VAE(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        args = (cfg["channels"], cfg["latent_dim"], cfg["image_size"])
        self.encoder = Encoder(*args)
        self.decoder = Decoder(*args)

    def forward(self, x):
        mu, logvar = self.encoder(x)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return self.decoder(z), mu, logvar


def kl_weight(step, warmup_steps):
    return min(1.0, (step + 1) / warmup_steps)


def elbo_terms(logits, x, mu, logvar, free_bits):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="none")
    rec = rec.flatten(1).sum(-1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp())
    kl = kl.mean(0).clamp(min=free_bits).sum()
    return rec, kl


def main(cfg):
    torch.manual_seed(cfg["seed"])
    xm.set_rng_state(cfg["seed"])
    device = torch_xla.device()
    data = Glyphs(cfg["num_examples"], cfg["image_size"], cfg["seed"])
    loader = DataLoader(data, batch_size=cfg["batch_size"], shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)

    model = VAE(cfg).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    history = []
    model.train()
    for step, x in enumerate(loader):
        beta = kl_weight(step, cfg["kl"]["warmup_steps"])
        optimizer.zero_grad()
        logits, mu, logvar = model(x)
        rec, kl = elbo_terms(logits, x, mu, logvar, cfg["kl"]["free_bits"])
        loss = rec + beta * kl
        loss.backward()
        optimizer.step()
        history.append(loss.detach())
    torch_xla.sync()
    print("loss", [round(v.item(), 3) for v in history])


if __name__ == "__main__":
    main(CONFIG)
