"""VAE over note sequences, convolutional, with KL warm-up."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ResBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.norm = nn.GroupNorm(4, ch)
        self.conv1 = nn.Conv1d(ch, ch, 3, padding=dilation, dilation=dilation)
        self.conv2 = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        h = self.conv1(F.silu(self.norm(x)))
        return x + self.conv2(F.silu(h))


class NoteVAE(nn.Module):
    def __init__(self, vocab=64, ch=32, latent=12, length=32):
        super().__init__()
        self.length, self.ch = length, ch
        self.embed = nn.Embedding(vocab, ch)
        self.enc = ResBlock(ch, 1)
        self.to_stats = nn.Linear(ch, 2 * latent)
        self.from_z = nn.Linear(latent, ch)
        self.pos = nn.Parameter(torch.randn(1, ch, length) * 0.02)
        self.dec = ResBlock(ch, 2)
        self.out = nn.Linear(ch, vocab)

    def encode(self, tokens):
        h = self.enc(self.embed(tokens).transpose(1, 2))
        return self.to_stats(h.mean(-1)).chunk(2, -1)

    def decode(self, z):
        h = self.from_z(z)[:, :, None] + self.pos
        return self.out(self.dec(h).transpose(1, 2))

    def forward(self, tokens):
        mu, logvar = self.encode(tokens)
        logvar = logvar.clamp(-8.0, 8.0)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decode(z), mu, logvar


class KLSchedule:
    def __init__(self, warmup, beta=1.0, free_bits=0.05):
        self.warmup, self.beta, self.free_bits = warmup, beta, free_bits

    def weight(self, step):
        return self.beta * min(1.0, (step + 1) / self.warmup)


def elbo(logits, tokens, mu, logvar, schedule, step):
    rec = F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="sum") / tokens.shape[0]
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp())
    kl = kl.mean(0).clamp(min=schedule.free_bits).sum()
    return rec + schedule.weight(step) * kl, rec.detach(), kl.detach()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=8)
    ap.add_argument("--kl-warmup", type=int, default=7)
    args = ap.parse_args()

    torch.manual_seed(0)
    device = torch_xla.device()
    model = NoteVAE().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98))
    schedule = KLSchedule(args.kl_warmup)
    gen = torch.Generator().manual_seed(3)
    torch_xla.sync()

    for step in range(args.steps):
        tokens = torch.randint(0, 64, (8, 32), generator=gen).to(device)
        opt.zero_grad(set_to_none=True)
        logits, mu, logvar = model(tokens)
        loss, rec, kl = elbo(logits, tokens, mu, logvar, schedule, step)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(f"{step:4d} loss {loss.item():.3f} rec {rec.item():.3f} kl {kl.item():.3f}")


if __name__ == "__main__":
    main()
