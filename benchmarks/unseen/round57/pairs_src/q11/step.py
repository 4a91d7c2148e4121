import os

os.environ.setdefault("XLA_IR_DEBUG", "1")
os.environ.setdefault("XLA_HLO_DEBUG", "1")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, ch)
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.norm2 = nn.GroupNorm(4, ch)
        self.conv2 = nn.Conv2d(ch, ch, 1)

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(self.norm2(h)))
        return x + h


class Encoder(nn.Module):
    def __init__(self, in_ch, ch, z_dim):
        super().__init__()
        self.stem = nn.Conv2d(in_ch, ch, 4, stride=2, padding=1)
        self.block = ResBlock(ch)
        self.down = nn.Conv2d(ch, ch, 4, stride=2, padding=1)
        self.head = nn.Linear(ch * 4 * 4, 2 * z_dim)

    def forward(self, x):
        h = self.down(self.block(self.stem(x)))
        mu, logvar = self.head(F.silu(h).flatten(1)).chunk(2, dim=1)
        return mu, logvar.clamp(-10.0, 8.0)


class Decoder(nn.Module):
    def __init__(self, out_ch, ch, z_dim):
        super().__init__()
        self.ch = ch
        self.proj = nn.Linear(z_dim, ch * 4 * 4)
        self.up1 = nn.ConvTranspose2d(ch, ch, 4, stride=2, padding=1)
        self.up2 = nn.ConvTranspose2d(ch, out_ch, 4, stride=2, padding=1)

    def forward(self, z):
        h = self.proj(z).view(z.size(0), self.ch, 4, 4)
        h = self.up1(F.silu(h))
        return self.up2(F.silu(h))


class VAE(nn.Module):
    def __init__(self, in_ch=1, ch=8, z_dim=6):
        super().__init__()
        self.encoder = Encoder(in_ch, ch, z_dim)
        self.decoder = Decoder(in_ch, ch, z_dim)

    def forward(self, x):
        mu, logvar = self.encoder(x)
        eps = torch.randn_like(mu)
        z = mu + eps * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


class LinearAnnealer:
    def __init__(self, start, stop, n_steps):
        self.start, self.stop, self.n_steps = start, stop, n_steps

    def __call__(self, step):
        t = min(step / self.n_steps, 1.0)
        return self.start + (self.stop - self.start) * t


def elbo(recon, x, mu, logvar, beta):
    rec = F.binary_cross_entropy_with_logits(recon, x, reduction="none")
    rec = rec.flatten(1).sum(1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return rec + beta * kl, rec, kl


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = VAE().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=1e-4)
    beta_at = LinearAnnealer(start=0.1, stop=1.0, n_steps=6)
    data = torch.rand(16, 8, 1, 16, 16)
    avg_rec = torch.zeros((), device=device)
    torch_xla.sync()

    for step in range(9):
        x = data[step].to(device)
        opt.zero_grad(set_to_none=True)
        recon, mu, logvar = model(x)
        loss, rec, kl = elbo(recon, x, mu, logvar, beta_at(step))
        loss.backward()
        opt.step()
        avg_rec = torch.lerp(avg_rec, rec.detach(), 0.05)
        torch_xla.sync()
        if step % 4 == 0:
            print(step, f"{beta_at(step):.3f}", f"{loss.item():.2f}", f"{kl.item():.3f}", f"{avg_rec.item():.2f}")


if __name__ == "__main__":
    main()
