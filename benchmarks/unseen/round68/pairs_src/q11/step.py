"""Additive synthesiser fitted to single-note flute recordings (DDSP style), TPU port."""
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.debug.metrics as met


@dataclass
class Config:
    sample_rate: int = 8000
    hop: int = 32
    n_frames: int = 16
    n_harmonics: int = 12
    n_noise: int = 9
    hidden: int = 24
    batch: int = 2
    fft_sizes: tuple = (64, 32)
    lr: float = 2e-3

    @property
    def n_samples(self):
        return self.hop * self.n_frames


class ConvSTFT(nn.Module):
    """Magnitude spectrogram through a fixed conv; torch.stft falls back to the host here."""

    def __init__(self, n_fft):
        super().__init__()
        k = torch.arange(n_fft // 2 + 1).unsqueeze(1)
        n = torch.arange(n_fft).unsqueeze(0)
        win = torch.hann_window(n_fft)
        ang = 2 * math.pi * k * n / n_fft
        kern = torch.cat([torch.cos(ang), torch.sin(ang)], 0) * win
        self.register_buffer("kernel", kern.unsqueeze(1), persistent=False)
        self.stride = n_fft // 4

    def forward(self, wav):
        z = F.conv1d(wav.unsqueeze(1), self.kernel, stride=self.stride)
        re, im = z.chunk(2, dim=1)
        return torch.sqrt(re * re + im * im + 1e-7)


class SpectralLoss(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.ffts = nn.ModuleList(ConvSTFT(s) for s in sizes)

    def forward(self, x, y):
        total = 0
        for fft in self.ffts:
            sx, sy = fft(x), fft(y)
            total = total + F.l1_loss(sx, sy) + F.l1_loss(sx.log(), sy.log())
        return total


def mlp(i, h):
    return nn.Sequential(nn.Linear(i, h), nn.LayerNorm(h), nn.LeakyReLU(0.1))


class Synth(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.in_f0 = mlp(1, cfg.hidden)
        self.in_ld = mlp(1, cfg.hidden)
        self.mix = mlp(2 * cfg.hidden, cfg.hidden)
        self.to_harm = nn.Linear(cfg.hidden, cfg.n_harmonics + 1)
        self.to_noise = nn.Linear(cfg.hidden, cfg.n_noise)
        self.register_buffer("orders", torch.arange(1, cfg.n_harmonics + 1).float())

    @staticmethod
    def scaled_sigmoid(x):
        return 2 * torch.sigmoid(x) ** math.log(10) + 1e-7

    def upsample(self, frames):
        b, t, c = frames.shape
        return frames.unsqueeze(2).expand(b, t, self.cfg.hop, c).reshape(b, t * self.cfg.hop, c)

    def forward(self, f0, loudness, noise):
        cfg = self.cfg
        h = self.mix(torch.cat([self.in_f0(f0.log2() / 10), self.in_ld(loudness)], -1))
        harm = self.scaled_sigmoid(self.to_harm(h))
        amp, dist = harm[..., :1], harm[..., 1:]
        nyquist = (f0 * self.orders < cfg.sample_rate / 2).to(dist.dtype)
        dist = dist * nyquist
        dist = amp * dist / (dist.sum(-1, keepdim=True) + 1e-6)

        f0_up = self.upsample(f0)
        phase = torch.cumsum(2 * math.pi * f0_up / cfg.sample_rate, dim=1)
        tone = (torch.sin(phase * self.orders) * self.upsample(dist)).sum(-1)

        bands = self.scaled_sigmoid(self.to_noise(h) - 5)
        level = bands.mean(-1, keepdim=True)
        hiss = noise * self.upsample(level).squeeze(-1)
        return tone + hiss


class NoteDataset:
    def __init__(self, cfg, n=16, seed=0):
        rng = np.random.default_rng(seed)
        t = np.arange(cfg.n_samples) / cfg.sample_rate
        base = rng.uniform(260, 900, size=n)
        self.audio = np.stack([np.sin(2 * np.pi * b * t) * np.exp(-3 * t) for b in base])
        self.f0 = np.repeat(base[:, None], cfg.n_frames, 1)[..., None]
        self.loudness = np.repeat(np.linspace(1, 0.2, cfg.n_frames)[None], n, 0)[..., None]
        self.cfg, self.rng = cfg, rng

    def batches(self):
        order = self.rng.permutation(len(self.audio))
        for i in range(0, len(order), self.cfg.batch):
            idx = order[i:i + self.cfg.batch]
            yield tuple(torch.from_numpy(a[idx].astype(np.float32))
                        for a in (self.audio, self.f0, self.loudness))


class Jitter:
    """Augmentation on device: onset jitter and gain."""

    def __init__(self, max_samples, seed=1):
        self.max_samples = max_samples
        self.rng = np.random.default_rng(seed)

    def __call__(self, wav):
        onset = int(self.rng.integers(1, self.max_samples))
        gain = torch.empty(wav.size(0), 1, device=wav.device).uniform_(0.8, 1.2)
        return torch.roll(wav, shifts=onset, dims=-1) * gain


def main():
    torch.manual_seed(7)
    cfg = Config()
    device = torch_xla.device()
    model = Synth(cfg).to(device)
    criterion = SpectralLoss(cfg.fft_sizes).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    augment = Jitter(cfg.hop)
    data = NoteDataset(cfg)
    torch_xla.sync()
    for it, batch in enumerate(data.batches()):
        wav, f0, ld = (t.to(device) for t in batch)
        target = augment(wav)
        noise = torch.rand_like(wav) * 2 - 1
        loss = criterion(model(f0, ld, noise), target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(f"{it:3d} loss {loss.item():.4f} compiles {met.counter_value('UncachedCompile') or 0}")


if __name__ == "__main__":
    main()
