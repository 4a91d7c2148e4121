"""VQ-VAE on 1-d waveforms (torch_xla)."""
import math

import torch
from torch import nn
from torch.nn import functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


class VectorQuantizer(nn.Module):

    def __init__(self, n_codes, dim, beta):
        super().__init__()
        self.beta = beta
        self.codebook = nn.Embedding(n_codes, dim)
        self.codebook.weight.data.uniform_(-1.0 / n_codes, 1.0 / n_codes)

    def forward(self, z):
        # z: (batch, dim, time) -> rows
        b, d, t = z.shape
        rows = z.permute(0, 2, 1).reshape(-1, d)
        cb = self.codebook.weight
        dist = (rows.pow(2).sum(1, keepdim=True) - 2 * rows @ cb.t() + cb.pow(2).sum(1))
        idx = dist.argmin(dim=1)
        quant = self.codebook(idx)
        codebook_loss = F.mse_loss(quant, rows.detach())
        commit_loss = F.mse_loss(rows, quant.detach())
        quant = rows + (quant - rows).detach()
        out = quant.reshape(b, t, d).permute(0, 2, 1)
        return out, codebook_loss + self.beta * commit_loss, idx


class VQVAE(nn.Module):

    def __init__(self, hidden=12, dim=8, n_codes=16, beta=0.25):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv1d(1, hidden, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv1d(hidden, dim, 4, stride=2, padding=1),
        )
        self.vq = VectorQuantizer(n_codes, dim, beta)
        self.dec = nn.Sequential(
            nn.ConvTranspose1d(dim, hidden, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose1d(hidden, 1, 4, stride=2, padding=1),
        )

    def forward(self, x):
        z = self.enc(x)
        q, vq_loss, idx = self.vq(z)
        return self.dec(q), vq_loss, idx


def waveforms(n, length):
    t = torch.linspace(0, 2 * math.pi, length)
    k = torch.randint(1, 5, (n, 1)).float()
    ph = torch.rand(n, 1) * 2 * math.pi
    return (torch.sin(k * t + ph) + 0.05 * torch.randn(n, length)).unsqueeze(1)


def run(epochs=1, batch=8, length=32):
    torch.manual_seed(11)
    device = torch_xla.device()
    loader = DataLoader(TensorDataset(waveforms(4 * batch, length)), batch_size=batch, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)

    net = VQVAE().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.9, 0.99))
    torch_xla.sync()

    used = None
    for epoch in range(epochs):
        for (x,) in loader:
            recon, vq_loss, idx = net(x)
            rec_loss = F.mse_loss(recon, x)
            loss = rec_loss + vq_loss
            opt.zero_grad()
            loss.backward()
            opt.step()
            used = F.one_hot(idx, 16).sum(0)
        print(f"epoch {epoch}: rec {rec_loss.item():.4f} vq {vq_loss.item():.4f} "
              f"codes in use {(used > 0).sum().item()}")


if __name__ == "__main__":
    run()
