"""Mineral identification from Raman spectra: metric learning against a reference library."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met


class ConvStem(nn.Module):

    def __init__(self, c_in, c_out, k, stride, p_drop):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, k, stride=stride, padding=k // 2, bias=False)
        self.norm = nn.GroupNorm(4, c_out)
        self.drop = nn.Dropout(p_drop)

    def forward(self, x):
        return self.drop(F.leaky_relu(self.norm(self.conv(x)), 0.1))


class SpectrumEncoder(nn.Module):

    def __init__(self, width=8, dim=16, p_drop=0.15):
        super().__init__()
        self.stem = ConvStem(1, width, 9, 4, p_drop)
        self.mid = ConvStem(width, 2 * width, 5, 2, p_drop)
        self.squeeze = nn.Linear(2 * width, 2 * width)
        self.proj = nn.Linear(2 * width, dim)

    def forward(self, wave):
        h = self.mid(self.stem(wave.unsqueeze(1)))
        gate = torch.sigmoid(self.squeeze(h.mean(-1)))
        pooled = (h * gate.unsqueeze(-1)).amax(-1)
        return F.normalize(self.proj(pooled), dim=-1)


class ReferenceLibrary:
    """One reference vector per species, built from the curated RRUFF-like spectra."""

    def __init__(self, spectra, species, n_species, device):
        self.spectra = spectra.to(device)
        self.onehot = F.one_hot(species, n_species).float().to(device)
        self.vectors = None

    @torch.no_grad()
    def refresh(self, encoder):
        encoder.eval()
        z = encoder(self.spectra)
        sums = self.onehot.t() @ z
        self.vectors = F.normalize(sums / self.onehot.sum(0).unsqueeze(1), dim=-1)
        torch_xla.sync()


class LibraryLoss(nn.Module):

    def __init__(self, scale=12.0, margin=0.2):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(float(np.log(scale))))
        self.margin = margin

    def forward(self, z, species, vectors):
        cos = z @ vectors.t()
        target = F.one_hot(species, vectors.shape[0]).to(cos.dtype)
        logits = self.log_scale.exp() * (cos - self.margin * target)
        spread = (z.t() @ z / z.shape[0]).pow(2).sum()
        return F.cross_entropy(logits, species) + 0.01 * spread


def synth(n, n_species, length, rng):
    peaks = np.random.default_rng(5).uniform(0.05, 0.95, (n_species, 4))
    y = rng.integers(0, n_species, n)
    y[:n_species] = np.arange(n_species)
    grid = np.linspace(0, 1, length)
    x = np.exp(-((grid[None, None] - peaks[y][:, :, None]) / 0.012)**2).sum(1)
    x += 0.05 * rng.normal(size=x.shape) + np.outer(rng.uniform(0, 0.5, n), grid)
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--species", type=int, default=7)
    p.add_argument("--length", type=int, default=128)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--per-round", type=int, default=4)
    p.add_argument("--batch", type=int, default=12)
    args = p.parse_args()

    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    device = torch_xla.device()

    encoder = SpectrumEncoder().to(device)
    criterion = LibraryLoss().to(device)
    library = ReferenceLibrary(*synth(21, args.species, args.length, rng), args.species, device)
    library.vectors = F.normalize(torch.randn(args.species, 16), dim=-1).to(device)
    opt = torch.optim.AdamW([*encoder.parameters(), *criterion.parameters()], lr=3e-3, weight_decay=0.02)

    encoder.train()
    criterion.train()
    for r in range(args.rounds):
        for i in range(args.per_round):
            wave, species = synth(args.batch, args.species, args.length, rng)
            wave, species = wave.to(device), species.to(device)
            opt.zero_grad()
            loss = criterion(encoder(wave), species, library.vectors)
            loss.backward()
            xm.optimizer_step(opt)
            torch_xla.sync()
            print(f"round {r} step {i} loss {loss.item():.4f} compiles {met.counter_value('UncachedCompile')}")
        library.refresh(encoder)


if __name__ == "__main__":
    main()
