"""VQ-VAE for single-lead ECG windows; the codes feed the rhythm classifier."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class ResBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.norm = nn.GroupNorm(2, ch)
        self.conv1 = nn.Conv1d(ch, ch, 3, padding=dilation, dilation=dilation)
        self.conv2 = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        h = self.conv1(F.silu(self.norm(x)))
        return x + self.conv2(F.silu(h))


class Quantizer(nn.Module):
    def __init__(self, n_codes, dim, beta=0.25):
        super().__init__()
        self.beta = beta
        self.codebook = nn.Embedding(n_codes, dim)
        nn.init.uniform_(self.codebook.weight, -1.0 / n_codes, 1.0 / n_codes)

    def forward(self, z):
        b, d, t = z.shape
        z = z.permute(0, 2, 1)
        flat = z.reshape(-1, d)
        table = self.codebook.weight
        dist = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ table.t() + table.pow(2).sum(1)
        codes = dist.argmin(1)
        q = self.codebook(codes).view(b, t, d)

        commit = F.mse_loss(z, q.detach())
        embed = F.mse_loss(q, z.detach())
        loss = embed + self.beta * commit

        q = z + (q - z).detach()
        usage = torch.zeros(table.shape[0], device=z.device).scatter_add_(
            0, codes, torch.ones_like(codes, dtype=torch.float32))
        p = usage / usage.sum()
        perplexity = torch.exp(-(p * torch.log(p + 1e-10)).sum())
        return q.permute(0, 2, 1), loss, perplexity


class EcgVqVae(nn.Module):
    def __init__(self, ch=16, dim=8, n_codes=32):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv1d(1, ch, 4, stride=2, padding=1), ResBlock(ch, 3),
            nn.Conv1d(ch, dim, 4, stride=2, padding=1))
        self.vq = Quantizer(n_codes, dim)
        self.dec = nn.Sequential(
            nn.Conv1d(dim, ch, 3, padding=1), ResBlock(ch, 3),
            nn.ConvTranspose1d(ch, ch, 4, stride=2, padding=1), nn.SiLU(),
            nn.ConvTranspose1d(ch, 1, 4, stride=2, padding=1))

    def forward(self, x):
        q, vq_loss, ppl = self.vq(self.enc(x))
        return self.dec(q), vq_loss, ppl


def windows(n, length, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 6.28, length)
    while True:
        hr = 1 + 3 * torch.rand(n, 1, generator=g)
        ph = 6.28 * torch.rand(n, 1, generator=g)
        beat = torch.sin(hr * t + ph) ** 15
        yield (beat + 0.05 * torch.randn(n, length, generator=g)).unsqueeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=4)
    ap.add_argument("--batch", type=int, default=6)
    args = ap.parse_args()
    torch.manual_seed(7)
    device = xm.xla_device()
    model = EcgVqVae().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=4e-4, betas=(0.9, 0.99))
    data = windows(args.batch, 64, 0)
    log = []
    torch_xla.sync()
    for step in range(args.steps):
        x = next(data).to(device)
        opt.zero_grad()
        recon, vq_loss, ppl = model(x)
        rec = F.l1_loss(recon, x) + 0.5 * F.mse_loss(torch.diff(recon), torch.diff(x))
        loss = rec + vq_loss
        loss.backward()
        opt.step()
        log.append((loss.detach(), ppl.detach()))
        torch_xla.sync()
    for i, (l, p) in enumerate(log):
        print(f"{i} loss {l.item():.5f} perplexity {p.item():.2f}")


if __name__ == "__main__":
    main()
