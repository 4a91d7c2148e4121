import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class ConvVAE(nn.Module):
    def __init__(self, latent=8, width=8):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, width * 2, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten())
        self.mu = nn.Linear(width * 2 * 16, latent)
        self.logvar = nn.Linear(width * 2 * 16, latent)
        self.fc = nn.Linear(latent, width * 2 * 16)
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(width * 2, width, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1))
        self.width = width

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        std = torch.exp(0.5 * logvar)
        z = mu + torch.randn_like(std) * std
        y = self.dec(self.fc(z).view(-1, self.width * 2, 4, 4))
        return y, mu, logvar


class BetaSchedule:
    """Linear KL annealing."""

    def __init__(self, warmup, end=1.0, start=0.1):
        self.warmup, self.end, self.start = warmup, end, start

    def __call__(self, step):
        t = min(step / self.warmup, 1.0)
        return self.start + t * (self.end - self.start)


class Trainer:
    def __init__(self, args):
        self.device = torch_xla.device()
        self.model = ConvVAE(args.latent).to(self.device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.beta = BetaSchedule(args.kl_warmup)
        self.args = args
        self.step = 0

    def train_step(self, x):
        self.opt.zero_grad()
        y, mu, logvar = self.model(x)
        rec = F.binary_cross_entropy_with_logits(y, x, reduction='sum') / x.size(0)
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1).mean()
        loss = rec + self.beta(self.step) * kl
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        self.step += 1
        return loss

    def fit(self):
        g = torch.Generator().manual_seed(0)
        for _ in range(self.args.steps):
            x = (torch.rand(self.args.batch, 1, 16, 16, generator=g) > 0.7).float()
            loss = self.train_step(x.to(self.device))
            if self.step % 5 == 0:
                print(f'step {self.step} beta {self.beta(self.step):.2f} loss {loss.item():.3f}')


if __name__ == '__main__':
    p = argparse.ArgumentParser()
    p.add_argument('--steps', type=int, default=14)
    p.add_argument('--batch', type=int, default=8)
    p.add_argument('--latent', type=int, default=8)
    p.add_argument('--lr', type=float, default=1e-3)
    p.add_argument('--kl_warmup', type=int, default=8)
    torch.manual_seed(1)
    Trainer(p.parse_args()).fit()
