"""Denoising of ECG leads (baseline wander, mains hum) with a dilated residual network, driven by accelerate.

Gradients of two micro-batches are accumulated; the validation SNR is measured after every epoch.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

FS = 125
LENGTH = 128
EPOCHS = 4
TRAIN, VALID = 150, 44
BATCH = 16


def beats(rng, n):
    """Sum-of-Gaussians heart beat (P, Q, R, S, T waves) with a random rate."""
    t = np.arange(LENGTH) / FS
    centre = np.array([-0.18, -0.04, 0.0, 0.04, 0.25])
    height = np.array([0.12, -0.12, 1.0, -0.25, 0.3])
    width = np.array([0.025, 0.01, 0.012, 0.012, 0.045])
    out = np.zeros((n, LENGTH))
    for i in range(n):
        period = rng.uniform(0.65, 1.0)
        first = rng.uniform(0, period)
        for beat in np.arange(first - period, t[-1] + period, period):
            amp = height * rng.normal(1.0, 0.05, 5)
            out[i] += (amp[:, None] * np.exp(-0.5 * ((t[None] - beat - centre[:, None]) / width[:, None]) ** 2)).sum(0)
    return out


def contaminate(rng, clean):
    n = len(clean)
    t = np.arange(LENGTH) / FS
    wander = rng.uniform(0.1, 0.4, (n, 1)) * np.sin(2 * np.pi * rng.uniform(0.15, 0.5, (n, 1)) * t + rng.uniform(0, 6, (n, 1)))
    hum = 0.08 * np.sin(2 * np.pi * 50 * t + rng.uniform(0, 6, (n, 1)))
    return clean + wander + hum + 0.03 * rng.standard_normal(clean.shape)


def make_split(n, seed):
    rng = np.random.default_rng(seed)
    clean = beats(rng, n)
    noisy = contaminate(rng, clean)
    return TensorDataset(torch.tensor(noisy[:, None], dtype=torch.float32), torch.tensor(clean[:, None], dtype=torch.float32))


class DilatedBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv1d(width, 2 * width, 3, padding=dilation, dilation=dilation)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x):
        a, b = self.conv(x).chunk(2, dim=1)
        return x + self.mix(torch.tanh(a) * torch.sigmoid(b))


class LeadDenoiser(nn.Module):
    def __init__(self, width=12, dilations=(1, 2, 4, 8)):
        super().__init__()
        self.inp = nn.Conv1d(1, width, 5, padding=2)
        self.blocks = nn.Sequential(*[DilatedBlock(width, d) for d in dilations])
        self.out = nn.Conv1d(width, 1, 1)

    def forward(self, x):
        return x - self.out(self.blocks(self.inp(x)))


def derivative_loss(pred, target):
    return F.smooth_l1_loss(pred, target) + 0.5 * F.l1_loss(pred.diff(dim=-1), target.diff(dim=-1))


def validate(accelerator, model, loader):
    model.eval()
    signal, noise = 0.0, 0.0
    for noisy, clean in loader:
        with torch.no_grad():
            pred = model(noisy)
        pred, clean = accelerator.gather_for_metrics((pred, clean))
        s, e = clean.square().sum(), (pred - clean).square().sum()
        torch_xla.sync()
        signal += s.item()
        noise += e.item()
    model.train()
    return 10 * np.log10(signal / noise)


def main():
    set_seed(11)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    train_loader = DataLoader(make_split(TRAIN, 1), batch_size=BATCH, shuffle=True)
    valid_loader = DataLoader(make_split(VALID, 2), batch_size=BATCH)

    model = LeadDenoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.7)
    model, optimizer, train_loader, valid_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, valid_loader, scheduler
    )

    for epoch in range(EPOCHS):
        total = 0.0
        for noisy, clean in train_loader:
            with accelerator.accumulate(model):
                loss = derivative_loss(model(noisy), clean)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            torch_xla.sync()
            total += loss.item()
        snr = validate(accelerator, model, valid_loader)
        print(f"epoch {epoch}  loss {total / len(train_loader):.4f}  validation SNR {snr:.2f} dB")


if __name__ == "__main__":
    main()
