"""Mel-to-waveform vocoder, multi-resolution spectral loss."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SAMPLES = 512
HOP = 16
N_MELS = 12


class ResUnit(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.a = nn.Conv1d(ch, ch, 3, padding=dilation, dilation=dilation, bias=False)
        self.b = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        return x + self.b(F.leaky_relu(self.a(F.leaky_relu(x, 0.1)), 0.1))


class Vocoder(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.pre = nn.Conv1d(N_MELS, ch, 7, padding=3)
        self.up1 = nn.ConvTranspose1d(ch, ch // 2, 8, stride=4, padding=2)
        self.res1 = ResUnit(ch // 2, 1)
        self.up2 = nn.ConvTranspose1d(ch // 2, ch // 4, 8, stride=4, padding=2)
        self.res2 = ResUnit(ch // 4, 3)
        self.post = nn.Conv1d(ch // 4, 1, 7, padding=3)

    def forward(self, mel):
        x = self.res1(self.up1(self.pre(mel)))
        x = self.res2(self.up2(F.leaky_relu(x, 0.1)))
        return torch.tanh(self.post(F.leaky_relu(x, 0.1)))


class SpectralLoss(nn.Module):
    def __init__(self, sizes=(64, 128)):
        super().__init__()
        for n in sizes:
            t = torch.arange(n) * 2 * math.pi / n
            k = torch.arange(n // 2 + 1)[:, None]
            basis = torch.cat([torch.cos(k * t), -torch.sin(k * t)]) * torch.hann_window(n)
            self.register_buffer(f"basis_{n}", basis[:, None])
        self.sizes = sizes

    def magnitude(self, wav, n):
        re, im = F.conv1d(wav, getattr(self, f"basis_{n}"), stride=n // 4).chunk(2, 1)
        return torch.sqrt(re ** 2 + im ** 2 + 1e-7)

    def forward(self, fake, real):
        total = 0.0
        for n in self.sizes:
            f, r = self.magnitude(fake, n), self.magnitude(real, n)
            total = total + F.l1_loss(torch.log(f), torch.log(r)) + (f - r).norm() / r.norm()
        return total / len(self.sizes)


class Monitor:
    """Collects scalars; the host reads them after the step."""

    def __init__(self, model, every):
        self.model, self.every = model, every
        self.before, self.values = None, {}

    def due(self, step):
        return step % self.every == 0

    def pre_step(self, step):
        self.values = {}
        if self.due(step):
            self.before = [p.detach().clone() for p in self.model.parameters()]

    def post_step(self, step, fake, real):
        if not self.due(step):
            return
        moved = sum(((p.detach() - b) ** 2).sum() for p, b in zip(self.model.parameters(), self.before))
        size = sum((b ** 2).sum() for b in self.before)
        err = ((fake.detach() - real) ** 2).mean()
        self.values["update_ratio"] = torch.sqrt(moved / size)
        self.values["snr_db"] = 10 * torch.log10((real ** 2).mean() / err)
        self.before = None

    def report(self, step):
        if self.values:
            print(step, {k: round(v.item(), 5) for k, v in self.values.items()})


def segments(n):
    g = torch.Generator().manual_seed(5)
    for _ in range(n):
        mel = torch.randn(2, N_MELS, SAMPLES // HOP, generator=g)
        f0 = 0.02 + 0.05 * torch.rand(2, 1, 1, generator=g)
        wav = 0.6 * torch.sin(2 * math.pi * f0 * torch.arange(SAMPLES))
        yield mel, wav


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    vocoder = Vocoder().to(device)
    spectral = SpectralLoss().to(device)
    optimizer = torch.optim.Adam(vocoder.parameters(), lr=3e-4, betas=(0.8, 0.99))
    monitor = Monitor(vocoder, every=5)
    torch_xla.sync()

    for step, (mel, wav) in enumerate(segments(12)):
        mel, wav = mel.to(device), wav.to(device)
        fake = vocoder(mel)
        loss = spectral(fake, wav)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        monitor.pre_step(step)
        optimizer.step()
        monitor.post_step(step, fake, wav)
        torch_xla.sync()
        monitor.report(step)


if __name__ == "__main__":
    main()
