# Adversarial vocoder-style training: conditional generator from mel-like frames to waveform,
# discriminator on raw audio with lazy gradient penalty, EMA generator for monitoring.
import argparse
import copy

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=72)
    ap.add_argument("--batch", type=int, default=6)
    ap.add_argument("--frames", type=int, default=16)
    ap.add_argument("--hop", type=int, default=8)
    ap.add_argument("--bands", type=int, default=10)
    ap.add_argument("--d-per-g", type=int, default=2)
    ap.add_argument("--gp-every", type=int, default=8)
    ap.add_argument("--gp-weight", type=float, default=2.0)
    ap.add_argument("--eval-every", type=int, default=18)
    return ap.parse_args()


class Generator(nn.Module):
    def __init__(self, bands, hop):
        super().__init__()
        self.pre = nn.Conv1d(bands, 16, 5, padding=2)
        self.up = nn.ConvTranspose1d(16, 8, hop, stride=hop)
        self.res = nn.Conv1d(8, 8, 3, padding=1)
        self.out = nn.Conv1d(8, 1, 7, padding=3)

    def forward(self, mel):
        x = F.leaky_relu(self.pre(mel), 0.1)
        x = F.leaky_relu(self.up(x), 0.1)
        x = x + self.res(F.leaky_relu(x, 0.1))
        return torch.tanh(self.out(x))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([
            nn.Conv1d(1, 8, 9, stride=2, padding=4),
            nn.Conv1d(8, 16, 9, stride=4, padding=4),
            nn.Conv1d(16, 1, 3, padding=1),
        ])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.leaky_relu(layer(x), 0.2)
        return self.layers[-1](x).mean(dim=(1, 2))


def make_batch(rng, args):
    n = args.frames * args.hop
    f0 = rng.uniform(0.02, 0.2, size=(args.batch, 1))
    t = np.arange(n)[None]
    wav = 0.6 * np.sin(2 * np.pi * f0 * t) + 0.05 * rng.standard_normal((args.batch, n))
    frames = wav.reshape(args.batch, args.frames, args.hop)
    spec = np.abs(np.fft.rfft(frames, n=2 * args.bands - 2, axis=-1))
    mel = np.log(spec + 1e-3).transpose(0, 2, 1)
    return (torch.tensor(mel, dtype=torch.float32),
            torch.tensor(wav[:, None], dtype=torch.float32))


def main():
    args = parse()
    torch.manual_seed(1)
    dev = torch_xla.device()
    G, D = Generator(args.bands, args.hop).to(dev), Discriminator().to(dev)
    G_ema = copy.deepcopy(G).requires_grad_(False)
    opt_g = torch.optim.Adam(G.parameters(), lr=3e-4, betas=(0.5, 0.9))
    opt_d = torch.optim.Adam(D.parameters(), lr=3e-4, betas=(0.5, 0.9))
    rng = np.random.default_rng(5)
    val_mel, val_wav = (t.to(dev) for t in make_batch(np.random.default_rng(99), args))

    for it in range(args.iters):
        mel, wav = (t.to(dev) for t in make_batch(rng, args))

        # ---- discriminator
        with torch.no_grad():
            fake = G(mel)
        penalize = it % args.gp_every == 0
        if penalize:
            wav.requires_grad_(True)
        real_score = D(wav)
        d_loss = F.relu(1 - real_score).mean() + F.relu(1 + D(fake)).mean()
        if penalize:
            (grad,) = torch.autograd.grad(real_score.sum(), wav, create_graph=True)
            d_loss = d_loss + args.gp_weight * grad.pow(2).sum(dim=(1, 2)).mean()
        opt_d.zero_grad(set_to_none=True)
        d_loss.backward()
        opt_d.step()
        torch_xla.sync()

        # ---- generator
        if it % args.d_per_g == args.d_per_g - 1:
            fake = G(mel)
            g_loss = -D(fake).mean() + 10.0 * F.l1_loss(fake, wav)
            opt_g.zero_grad(set_to_none=True)
            g_loss.backward()
            opt_g.step()
            with torch.no_grad():
                for e, p in zip(G_ema.parameters(), G.parameters()):
                    e.lerp_(p, 0.02)
            torch_xla.sync()

        if (it + 1) % args.eval_every == 0:
            with torch.no_grad():
                err = F.l1_loss(G_ema(val_mel), val_wav)
            torch_xla.sync()
            print(f"iter {it + 1:4d}  d {d_loss.item():.3f}  g {g_loss.item():.3f}  val-l1 {err.item():.4f}")


if __name__ == "__main__":
    main()
