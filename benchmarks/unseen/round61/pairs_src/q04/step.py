"""Convolutional VAE over vibration windows; reconstruction error is the anomaly score."""
import os

os.environ["XLA_IR_DEBUG"] = "1"
os.environ["XLA_HLO_DEBUG"] = "1"

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

CHANNELS, WINDOW, LATENT = 3, 32, 4


class Encoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.conv1 = nn.Conv1d(CHANNELS, width, 5, stride=2, padding=2)
        self.norm1 = nn.GroupNorm(2, width)
        self.conv2 = nn.Conv1d(width, 2 * width, 5, stride=2, padding=2)
        self.norm2 = nn.GroupNorm(2, 2 * width)
        self.mu = nn.Linear(2 * width * WINDOW // 4, LATENT)
        self.logvar = nn.Linear(2 * width * WINDOW // 4, LATENT)

    def forward(self, x):
        x = F.leaky_relu(self.norm1(self.conv1(x)), 0.1)
        x = F.leaky_relu(self.norm2(self.conv2(x)), 0.1)
        x = x.flatten(1)
        return self.mu(x), self.logvar(x)


class Decoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.width = width
        self.fc = nn.Linear(LATENT, 2 * width * WINDOW // 4)
        self.up1 = nn.ConvTranspose1d(2 * width, width, 4, stride=2, padding=1)
        self.norm1 = nn.GroupNorm(2, width)
        self.up2 = nn.ConvTranspose1d(width, CHANNELS, 4, stride=2, padding=1)

    def forward(self, z):
        x = self.fc(z).view(z.shape[0], 2 * self.width, WINDOW // 4)
        x = F.leaky_relu(self.norm1(self.up1(x)), 0.1)
        return self.up2(x)


class WindowVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def forward(self, x):
        mu, logvar = self.encoder(x)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


def elbo(recon, x, mu, logvar, beta):
    rec = F.smooth_l1_loss(recon, x, reduction="none").sum(dim=(1, 2))
    kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(dim=1)
    return (rec + beta * kl).mean()


def make_windows(length=530, hop=8, seed=11):
    rng = np.random.default_rng(seed)
    t = np.arange(length)
    base = [np.sin(t / p + ph) for p, ph in ((3.0, 0.0), (5.0, 1.0), (9.0, 2.0))]
    signal = np.stack(base) + 0.1 * rng.normal(size=(3, length))
    windows = [signal[:, s:s + WINDOW] for s in range(0, length - WINDOW + 1, hop)]
    windows = np.stack(windows).astype(np.float32)
    windows -= windows.mean(axis=(0, 2), keepdims=True)
    windows /= windows.std(axis=(0, 2), keepdims=True)
    return TensorDataset(torch.from_numpy(windows))


def main(epochs=3, batch_size=12, warmup=10, lr=1e-3):
    torch.manual_seed(11)
    torch_xla.manual_seed(11)
    device = torch_xla.device()
    loader = DataLoader(make_windows(), batch_size=batch_size, shuffle=True)
    model = WindowVAE().to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=lr, momentum=0.9)
    torch_xla.sync()
    step = 0
    for epoch in range(epochs):
        for (x,) in loader:
            x = x.to(device)
            beta = min(1.0, (step + 1) / warmup)
            optimizer.zero_grad()
            recon, mu, logvar = model(x)
            loss = elbo(recon, x, mu, logvar, beta)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            torch_xla.sync()
            print(epoch, step, round(loss.item(), 3), flush=True)
            step += 1


if __name__ == "__main__":
    main()
