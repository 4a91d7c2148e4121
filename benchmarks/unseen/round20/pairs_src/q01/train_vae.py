"""Beta-VAE on synthetic spectra, KL weight annealed linearly."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class VAE(nn.Module):
    def __init__(self, d=96, h=64, z=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.SiLU(), nn.Linear(h, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, h), nn.SiLU(), nn.Linear(h, d))

    def forward(self, x, eps):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        z = mu + eps * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


def kl_weight(step, warmup=5):
    return min(1.0, (step + 1) / warmup)


def main():
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = VAE().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95)
    data = torch.rand(8, 32, 96)
    for step in range(8):
        x = data[step].to(dev)
        eps = torch.randn(32, 8).to(dev)
        opt.zero_grad()
        recon, mu, logvar = model(x, eps)
        rec = F.mse_loss(recon, x, reduction="none").sum(-1).mean()
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
        loss = rec + kl_weight(step) * kl
        loss.backward()
        opt.step()
        torch_xla.sync()


main()
