"""Mini neural vocoder: upsample mel frames to waveform, train on short segments."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

HP = dict(
    n_mels=12,
    hop=8,
    frames=24,
    seg_frames=6,
    channels=16,
    batch=4,
    lr=2e-4,
    betas=(0.8, 0.99),
    stft=((32, 8), (16, 4)),
    steps=4,
    seed=1234,
)


class ResBlock(nn.Module):
    def __init__(self, ch, dilations=(1, 3)):
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv1d(ch, ch, 3, dilation=d, padding=d) for d in dilations
        )

    def forward(self, x):
        for conv in self.convs:
            x = x + conv(F.leaky_relu(x, 0.1))
        return x


class Generator(nn.Module):
    def __init__(self, hp):
        super().__init__()
        ch = hp["channels"]
        self.pre = nn.Conv1d(hp["n_mels"], ch, 7, padding=3)
        self.ups = nn.ModuleList([
            nn.ConvTranspose1d(ch, ch // 2, 8, stride=4, padding=2),
            nn.ConvTranspose1d(ch // 2, ch // 4, 4, stride=2, padding=1),
        ])
        self.blocks = nn.ModuleList([ResBlock(ch // 2), ResBlock(ch // 4)])
        self.post = nn.Conv1d(ch // 4, 1, 7, padding=3)

    def forward(self, mel):
        x = self.pre(mel)
        for up, block in zip(self.ups, self.blocks):
            x = block(up(F.leaky_relu(x, 0.1)))
        return torch.tanh(self.post(F.leaky_relu(x, 0.1)))


def dft_basis(n):
    t = torch.arange(n).float()
    k = torch.arange(n // 2 + 1).float()
    ang = 2 * math.pi * k[:, None] * t[None] / n
    win = 0.5 - 0.5 * torch.cos(2 * math.pi * t / n)
    return torch.stack([torch.cos(ang) * win, -torch.sin(ang) * win])


class SpectralLoss(nn.Module):
    """Log-magnitude L1 over a few resolutions, through framed matmuls."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        for i, (n, _) in enumerate(sizes):
            self.register_buffer(f"basis{i}", dft_basis(n))

    def mag(self, wav, i):
        n, hop = self.sizes[i]
        basis = getattr(self, f"basis{i}")
        re = F.conv1d(wav, basis[0].unsqueeze(1), stride=hop)
        im = F.conv1d(wav, basis[1].unsqueeze(1), stride=hop)
        return torch.sqrt(re * re + im * im + 1e-6)

    def forward(self, fake, real):
        loss = 0.0
        for i in range(len(self.sizes)):
            loss = loss + (self.mag(fake, i).log() - self.mag(real, i).log()).abs().mean()
        return loss / len(self.sizes)


def take_segment(mel, wav, hp):
    start = random.randint(0, hp["frames"] - hp["seg_frames"])
    mel = mel[:, :, start:start + hp["seg_frames"]]
    wav = wav[:, :, start * hp["hop"]:(start + hp["seg_frames"]) * hp["hop"]]
    return mel, wav


def main(hp):
    random.seed(hp["seed"])
    torch.manual_seed(hp["seed"])
    device = torch_xla.device()

    gen = Generator(hp).to(device)
    criterion = SpectralLoss(hp["stft"]).to(device)
    opt = torch.optim.AdamW(gen.parameters(), lr=hp["lr"], betas=hp["betas"])

    data = [
        (torch.randn(hp["batch"], hp["n_mels"], hp["frames"]),
         torch.randn(hp["batch"], 1, hp["frames"] * hp["hop"]).clamp(-1, 1))
        for _ in range(hp["steps"])
    ]
    torch_xla.sync()

    for step, (mel, wav) in enumerate(data):
        mel, wav = mel.to(device), wav.to(device)
        mel_seg, wav_seg = take_segment(mel, wav, hp)
        fake = gen(mel_seg)
        loss = criterion(fake, wav_seg) + 0.5 * F.l1_loss(fake, wav_seg)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        xm.mark_step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main(HP)
