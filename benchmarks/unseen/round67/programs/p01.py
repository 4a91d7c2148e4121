"""Unrolled convolutional sparse coding for respiratory flow signals.

The encoder runs a fixed number of iterative hard-thresholding steps with a
learned dictionary and non-negative codes; the dictionary is trained on the
reconstruction error with a continuation on the threshold.
"""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class BreathSignals(torch.utils.data.IterableDataset):
    """Synthetic flow curves: quasi-periodic breaths plus cough-like bursts."""

    def __init__(self, length, batch_size, seed):
        self.length = length
        self.batch_size = batch_size
        self.gen = torch.Generator().manual_seed(seed)

    def __iter__(self):
        t = torch.linspace(0.0, 8.0, self.length)
        while True:
            rate = 0.2 + 0.3 * torch.rand(self.batch_size, 1, generator=self.gen)
            phase = 2 * math.pi * torch.rand(self.batch_size, 1, generator=self.gen)
            breath = torch.sin(2 * math.pi * rate * t + phase)
            centre = 8.0 * torch.rand(self.batch_size, 1, generator=self.gen)
            burst = torch.exp(-((t - centre) ** 2) / 0.02)
            carrier = torch.sin(2 * math.pi * 6.0 * (t - centre))
            noise = 0.05 * torch.randn(self.batch_size, self.length, generator=self.gen)
            yield (breath + 0.8 * burst * carrier + noise).unsqueeze(1)


class SparseCoder(nn.Module):
    def __init__(self, atoms=12, width=17, iterations=3):
        super().__init__()
        self.iterations = iterations
        self.pad = width // 2
        self.dictionary = nn.Parameter(torch.randn(atoms, 1, width) * 0.1)
        self.log_step = nn.Parameter(torch.tensor(-2.0))

    def atoms(self):
        norm = self.dictionary.flatten(1).norm(dim=1).clamp_min(1e-6)
        return self.dictionary / norm.view(-1, 1, 1)

    def synthesise(self, codes):
        return F.conv_transpose1d(codes, self.atoms(), padding=self.pad)

    def analyse(self, signal):
        return F.conv1d(signal, self.atoms(), padding=self.pad)

    def forward(self, signal, cut):
        eta = self.log_step.exp()
        codes = F.threshold(eta * self.analyse(signal), cut, 0.0)
        for _ in range(self.iterations):
            residual = signal - self.synthesise(codes)
            codes = codes + eta * self.analyse(residual)
            codes = F.threshold(codes, cut, 0.0)
        return codes, self.synthesise(codes)


class Continuation:
    """Exponential decay of the threshold towards a floor."""

    def __init__(self, start, floor, decay):
        self.value = start
        self.floor = floor
        self.decay = decay

    def step(self):
        self.value = max(self.floor, self.value * self.decay)
        return self.value


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--start", type=float, default=0.05)
    parser.add_argument("--floor", type=float, default=0.002)
    parser.add_argument("--decay", type=float, default=0.94)
    parser.add_argument("--log-every", type=int, default=8)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(11)
    device = xm.xla_device()

    stream = iter(BreathSignals(args.length, args.batch_size, seed=3))
    coder = SparseCoder().to(device)
    optimizer = torch.optim.AdamW(coder.parameters(), lr=args.lr, weight_decay=0.0)
    warmup = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1.0, (s + 1) / 6))
    schedule = Continuation(args.start, args.floor, args.decay)

    coder.train()
    for step in range(args.steps):
        signal = next(stream).to(device)
        cut = schedule.step()

        codes, recon = coder(signal, cut)
        fit = F.mse_loss(recon, signal)
        activity = codes.abs().mean()
        loss = fit + 0.01 * activity

        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(coder.parameters(), 1.0)
        optimizer.step()
        warmup.step()
        torch_xla.sync()

        if (step + 1) % args.log_every == 0:
            density = (codes != 0).float().mean()
            print(f"step {step + 1:3d}  cut {cut:.4f}  fit {fit.item():.4f}  "
                  f"density {density.item():.3f}")


if __name__ == "__main__":
    main()
