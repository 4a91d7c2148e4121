"""Mask-based speech enhancement with on-device speed perturbation."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla as tx

SR = 4000
SAMPLES = 2048
FRAME, HOP = 128, 64
BATCH = 8


def voices(rng, n):
    t = np.arange(SAMPLES) / SR
    out = np.zeros((n, SAMPLES), dtype=np.float32)
    for i in range(n):
        f0 = rng.uniform(90, 220)
        for h in range(1, 6):
            out[i] += np.sin(2 * np.pi * f0 * h * t + rng.uniform(0, 6.28)) / h
        out[i] *= 0.5 + 0.5 * np.sin(2 * np.pi * rng.uniform(2, 5) * t)
    return out / 3.0


def noises(rng, n):
    white = rng.normal(0, 1, (n, SAMPLES)).astype(np.float32)
    return np.cumsum(white, axis=1).astype(np.float32) * 0.01 + 0.3 * white


class SpeedPerturb:
    def __init__(self, low=0.9, high=1.1, seed=0):
        self.low, self.high = low, high
        self.rng = np.random.default_rng(seed)

    def __call__(self, wave):
        rate = float(self.rng.uniform(self.low, self.high))
        length = int(wave.shape[-1] / rate)
        warped = F.interpolate(wave.unsqueeze(1), size=length, mode="linear", align_corners=False).squeeze(1)
        if length >= SAMPLES:
            return warped[:, :SAMPLES]
        return F.pad(warped, (0, SAMPLES - length))


class Framing(nn.Module):
    def __init__(self):
        super().__init__()
        k = torch.arange(FRAME // 2 + 1).float()[:, None]
        n = torch.arange(FRAME).float()[None]
        window = torch.hann_window(FRAME)
        angle = 2 * torch.pi * k * n / FRAME
        basis = torch.cat([torch.cos(angle), -torch.sin(angle)]) * window
        self.register_buffer("basis", basis[:, None])

    def forward(self, wave):
        spec = F.conv1d(wave.unsqueeze(1), self.basis, stride=HOP)
        re, im = spec.chunk(2, dim=1)
        return torch.sqrt(re**2 + im**2 + 1e-8)


class MaskNet(nn.Module):
    def __init__(self, bins=FRAME // 2 + 1, width=48):
        super().__init__()
        self.inp = nn.Conv1d(bins, width, 1)
        self.blocks = nn.ModuleList(nn.Conv1d(width, width, 3, padding=d, dilation=d) for d in (1, 2))
        self.out = nn.Conv1d(width, bins, 1)

    def forward(self, mag):
        x = F.relu(self.inp(torch.log(mag)))
        for block in self.blocks:
            x = x + F.relu(block(x))
        return torch.sigmoid(self.out(x))


class ScoreBoard:
    """Keeps the SNR gain of all utterances seen, for the summary line."""

    def __init__(self):
        self.gains = []

    def add(self, gain):
        self.gains.append(gain)

    def summary(self):
        g = torch.cat(self.gains)
        return torch.stack([g.mean(), g.std(), g.min()])


def snr(reference, estimate):
    num = reference.pow(2).sum((1, 2))
    den = (reference - estimate).pow(2).sum((1, 2)) + 1e-6
    return 10 * torch.log10(num / den)


def main():
    torch.manual_seed(21)
    rng = np.random.default_rng(21)
    device = tx.device()
    framing, net = Framing().to(device), MaskNet().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    perturb, board = SpeedPerturb(seed=4), ScoreBoard()

    for step in range(30):
        clean = torch.from_numpy(voices(rng, BATCH)).to(device)
        noise = torch.from_numpy(noises(rng, BATCH)).to(device)
        clean = perturb(clean)
        target, noisy = framing(clean), framing(clean + noise)
        estimate = net(noisy) * noisy
        loss = F.l1_loss(estimate.pow(0.3), target.pow(0.3))
        opt.zero_grad()
        loss.backward()
        opt.step()
        board.add((snr(target, estimate) - snr(target, noisy)).detach())
        summary = board.summary()
        tx.sync()
        if step % 10 == 9:
            mean, std, low = summary.tolist()
            print(f"step {step + 1}: loss {loss.item():.4f} gain {mean:+.2f} dB (std {std:.2f}, min {low:.2f})")


if __name__ == "__main__":
    main()
