"""VQ-VAE for single-lead ECG windows."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    window: int = 64
    batch: int = 8
    width: int = 12
    codes: int = 24
    dim: int = 8
    beta: float = 0.25
    lr: float = 2e-4
    steps: int = 4


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.conv1 = nn.Conv1d(ch, ch, 3, padding=1)
        self.conv2 = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        return x + self.conv2(F.relu(self.conv1(F.relu(x))))


class VectorQuantizer(nn.Module):
    def __init__(self, codes, dim, beta):
        super().__init__()
        self.beta = beta
        self.embedding = nn.Embedding(codes, dim)
        nn.init.uniform_(self.embedding.weight, -1.0 / codes, 1.0 / codes)

    def forward(self, z):
        z = z.transpose(1, 2).contiguous()
        flat = z.view(-1, z.shape[-1])
        d = (
            flat.pow(2).sum(1, keepdim=True)
            + self.embedding.weight.pow(2).sum(1)
            - 2 * flat @ self.embedding.weight.t()
        )
        idx = d.argmin(dim=1)
        z_q = self.embedding(idx).view(z.shape)

        loss = torch.mean((z_q.detach() - z) ** 2) + self.beta * torch.mean((z_q - z.detach()) ** 2)

        z_q = z + (z_q - z).detach()
        usage = F.one_hot(idx, self.embedding.num_embeddings).float().mean(0)
        perplexity = torch.exp(-(usage * torch.log(usage + 1e-10)).sum())
        return z_q.transpose(1, 2).contiguous(), loss, perplexity


class VQVAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.encoder = nn.Sequential(
            nn.Conv1d(1, w, 4, stride=2, padding=1),
            ResBlock(w),
            nn.Conv1d(w, w, 4, stride=2, padding=1),
            ResBlock(w),
            nn.Conv1d(w, cfg.dim, 1),
        )
        self.quant = VectorQuantizer(cfg.codes, cfg.dim, cfg.beta)
        self.decoder = nn.Sequential(
            nn.Conv1d(cfg.dim, w, 3, padding=1),
            ResBlock(w),
            nn.ConvTranspose1d(w, w, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose1d(w, 1, 4, stride=2, padding=1),
        )

    def forward(self, x):
        z_q, vq, ppl = self.quant(self.encoder(x))
        return self.decoder(z_q), vq, ppl


def windows(cfg, device):
    g = torch.Generator().manual_seed(3)
    t = torch.linspace(0, 6.28, cfg.window)
    for _ in range(cfg.steps):
        f = 1 + 3 * torch.rand(cfg.batch, 1, generator=g)
        x = torch.sin(f * t) + 0.05 * torch.randn(cfg.batch, cfg.window, generator=g)
        yield x.unsqueeze(1).to(device)


def train(cfg):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = VQVAE(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr, betas=(0.9, 0.99))
    for i, x in enumerate(windows(cfg, device)):
        opt.zero_grad()
        with torch_xla.step():
            recon, vq, ppl = model(x)
            rec = F.l1_loss(recon, x)
            loss = rec + vq
            loss.backward()
            opt.step()
        print(f"{i} rec {rec.item():.4f} vq {vq.item():.4f} ppl {ppl.item():.2f}")


if __name__ == "__main__":
    train(Config())
