"""Keyword spotting on synthetic chirps: log-magnitude frames -> small conv net."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

SR, N_FFT, HOP = 1024, 64, 32
CLASSES = 5


def synth_clip(rng, label):
    t = np.arange(SR) / SR
    f0 = 40 + 60 * label + rng.uniform(-10, 10)
    sweep = rng.uniform(-20, 20)
    wave = np.sin(2 * np.pi * (f0 * t + 0.5 * sweep * t ** 2))
    wave *= np.hanning(SR)
    return wave + 0.05 * rng.standard_normal(SR)


def dataset(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    waves = np.stack([synth_clip(rng, k) for k in labels]).astype(np.float32)
    return TensorDataset(torch.from_numpy(waves), torch.from_numpy(labels))


class FrontEnd(nn.Module):
    """Framed DFT as two matmuls, then log."""

    def __init__(self):
        super().__init__()
        k = torch.arange(N_FFT // 2)[None] * torch.arange(N_FFT)[:, None]
        ang = 2 * np.pi * k / N_FFT
        win = torch.hann_window(N_FFT)[:, None]
        self.register_buffer("re", torch.cos(ang) * win)
        self.register_buffer("im", torch.sin(ang) * win)

    def forward(self, wave):
        halves = wave.view(wave.shape[0], -1, HOP)
        frames = torch.cat([halves[:, :-1], halves[:, 1:]], dim=-1)
        power = (frames @ self.re) ** 2 + (frames @ self.im) ** 2
        return torch.log(power + 1e-4)


class WaveAugment(nn.Module):
    """Random gain, background noise and time shift, applied on the accelerator."""

    def __init__(self, max_shift_ms=100, noise=0.02, seed=0):
        super().__init__()
        self.max_shift = SR * max_shift_ms // 1000
        self.noise = noise
        self.rng = np.random.default_rng(seed)

    def forward(self, wave):
        if not self.training:
            return wave
        gain = self.rng.uniform(0.7, 1.3)
        shift = int(self.rng.integers(-self.max_shift, self.max_shift + 1))
        wave = torch.roll(wave, shifts=shift, dims=-1)
        return gain * wave + self.noise * torch.randn_like(wave)


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.augment = WaveAugment()
        self.front = FrontEnd()
        self.c1 = nn.Conv1d(N_FFT // 2, 16, 3, padding=1)
        self.c2 = nn.Conv1d(16, 16, 3, padding=1)
        self.fc = nn.Linear(16, CLASSES)

    def forward(self, wave):
        h = self.front(self.augment(wave)).transpose(1, 2)
        h = F.relu(self.c1(h))
        h = F.max_pool1d(h, 3)
        h = F.relu(self.c2(h))
        return self.fc(h.mean(-1))


def evaluate(model, loader, device):
    model.eval()
    correct = torch.zeros((), dtype=torch.long, device=device)
    total = 0
    with torch.no_grad():
        for wave, label in loader:
            correct += (model(wave).argmax(1) == label).sum()
            total += label.shape[0]
    return correct.item() / total


def main():
    torch.manual_seed(0)
    device = xm.xla_device()
    train_dl = DataLoader(dataset(128, 0), batch_size=16, shuffle=True, drop_last=True)
    test_dl = DataLoader(dataset(32, 1), batch_size=16)
    train_dl, test_dl = pl.MpDeviceLoader(train_dl, device), pl.MpDeviceLoader(test_dl, device)
    model = Spotter().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=24)
    for epoch in range(3):
        model.train()
        for wave, label in train_dl:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(wave), label, label_smoothing=0.1)
            loss.backward()
            xm.optimizer_step(optimizer)
            scheduler.step()
        acc = evaluate(model, test_dl, device)
        print(f"epoch {epoch} acc {acc:.3f}")


if __name__ == "__main__":
    main()
