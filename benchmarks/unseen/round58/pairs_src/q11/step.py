import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.norm = nn.GroupNorm(4, ch)
        self.conv = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x):
        return x + self.conv(F.silu(self.norm(x)))


class Encoder(nn.Module):
    def __init__(self, ch, zdim):
        super().__init__()
        self.inp = nn.Conv2d(1, ch, 4, stride=2, padding=1)
        self.block = ResBlock(ch)
        self.out = nn.Linear(ch * 16, 2 * zdim)

    def forward(self, x):
        h = self.block(self.inp(x))
        return self.out(F.silu(h).flatten(1)).chunk(2, dim=1)


class Decoder(nn.Module):
    def __init__(self, ch, zdim):
        super().__init__()
        self.ch = ch
        self.inp = nn.Linear(zdim, ch * 16)
        self.block = ResBlock(ch)
        self.out = nn.ConvTranspose2d(ch, 1, 4, stride=2, padding=1)

    def forward(self, z):
        h = self.inp(z).view(-1, self.ch, 4, 4)
        return self.out(F.silu(self.block(h)))


class VAE(nn.Module):
    def __init__(self, ch=8, zdim=6):
        super().__init__()
        self.encoder = Encoder(ch, zdim)
        self.decoder = Decoder(ch, zdim)

    def forward(self, x):
        mu, logvar = self.encoder(x)
        logvar = logvar.clamp(-8.0, 8.0)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decoder(z), mu, logvar


class ElboLoss:
    def __init__(self, warmup, free_bits):
        self.warmup = warmup
        self.free_bits = free_bits

    def beta(self, step):
        return min(1.0, (step + 1) / self.warmup)

    def __call__(self, step, x, logits, mu, logvar):
        rec = F.binary_cross_entropy_with_logits(logits, x, reduction="none")
        rec = rec.flatten(1).sum(1).mean()
        kl = 0.5 * (mu.pow(2) + logvar.exp() - 1.0 - logvar).mean(0)
        kl = kl.clamp(min=self.free_bits).sum()
        return rec + self.beta(step) * kl, rec, kl


def synthetic(n, gen):
    c = torch.rand(n, 2, 1, 1, generator=gen) * 6
    g = torch.arange(8.0)
    d = (g.view(1, 8, 1) - c[:, 0]) ** 2 + (g.view(1, 1, 8) - c[:, 1]) ** 2
    return (d < 4).float().unsqueeze(1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--kl-warmup", type=int, default=6)
    p.add_argument("--free-bits", type=float, default=0.02)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    device = torch_xla.device()
    model = VAE().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    criterion = ElboLoss(args.kl_warmup, args.free_bits)
    torch_xla.sync()

    for step in range(args.steps):
        x = synthetic(args.batch, gen).to(device)
        opt.zero_grad()
        logits, mu, logvar = model(x)
        loss, rec, kl = criterion(step, x, logits, mu, logvar)
        loss.backward()
        gnorm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        torch_xla.sync()
        if step % 2 == 1:
            print(f"step {step} rec {rec.item():.3f} kl {kl.item():.3f} "
                  f"gnorm {gnorm.item():.3f} bpd {loss.item() / 64 / math.log(2):.3f}")


if __name__ == "__main__":
    main()
