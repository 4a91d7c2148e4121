"""Non-autoregressive acoustic model: phonemes and durations to mel frames."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

SEED = 616
N_PHONES, MAX_PHONES = 40, 12
N_MELS, MAX_FRAMES = 10, 96
DIM, BATCH, STEPS = 24, 6, 18


class Utterances(Dataset):
    """Every item has the same size: phones to MAX_PHONES, mel frames to MAX_FRAMES."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        voice = rng.normal(size=(N_PHONES, N_MELS)).astype(np.float32)
        self.items = []
        for _ in range(n):
            length = int(rng.integers(6, MAX_PHONES + 1))
            phones = np.zeros(MAX_PHONES, dtype=np.int64)
            phones[:length] = rng.integers(1, N_PHONES, length)
            dur = np.zeros(MAX_PHONES, dtype=np.int64)
            dur[:length] = rng.integers(1, 9, length)
            mel = np.zeros((MAX_FRAMES, N_MELS), dtype=np.float32)
            frames = np.repeat(voice[phones], dur, axis=0)
            mel[: len(frames)] = frames + 0.1 * rng.normal(size=frames.shape)
            self.items.append((phones, dur, mel))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return tuple(torch.from_numpy(a) for a in self.items[i])


class ConvBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        h = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.norm(x + F.relu(h))


class LengthRegulator(nn.Module):
    """Repeats each phone for its duration; durations are on the host."""

    def forward(self, h, dur):
        phone = torch.arange(dur.size(1))
        idx = [torch.repeat_interleave(phone, d) for d in dur]
        idx = pad_sequence(idx, batch_first=True).to(h.device)
        return h.gather(1, idx.unsqueeze(-1).expand(-1, -1, h.size(-1)))


class DurationPredictor(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.block = ConvBlock(dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, h):
        return self.out(self.block(h)).squeeze(-1)


class AcousticModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.phones = nn.Embedding(N_PHONES, DIM, padding_idx=0)
        self.encoder = nn.Sequential(ConvBlock(DIM), ConvBlock(DIM))
        self.duration = DurationPredictor(DIM)
        self.regulate = LengthRegulator()
        self.position = nn.Parameter(0.02 * torch.randn(MAX_FRAMES, DIM))
        self.decoder = nn.Sequential(ConvBlock(DIM), ConvBlock(DIM))
        self.to_mel = nn.Linear(DIM, N_MELS)

    def forward(self, phones, dur):
        h = self.encoder(self.phones(phones))
        log_dur = self.duration(h.detach())
        frames = self.regulate(h, dur)
        frames = frames + self.position[: frames.size(1)]
        return self.to_mel(self.decoder(frames)), log_dur


def losses(mel_hat, log_dur, phones, dur, mel):
    real_phone = (phones != 0).float()
    n_frames = dur.sum(dim=1, keepdim=True)
    mel = mel[:, : mel_hat.size(1)]
    real_frame = (torch.arange(mel.size(1), device=mel.device) < n_frames).float()
    mel_loss = ((mel_hat - mel).abs().mean(-1) * real_frame).sum() / real_frame.sum()
    err = (log_dur - torch.log1p(dur.float())).pow(2)
    dur_loss = (err * real_phone).sum() / real_phone.sum()
    return mel_loss, dur_loss


def warmup(step, peak=4e-3, n=8):
    return peak * min((step + 1) / (n + 0.5), 1.0 / (1.0 + 0.02 * max(0, step - n)))


def endless(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    loader = DataLoader(Utterances(160, SEED), batch_size=BATCH, shuffle=True, drop_last=True)
    model = AcousticModel().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))

    source = endless(loader)
    for step in range(STEPS):
        phones, dur, mel = next(source)
        phones, mel = phones.to(device), mel.to(device)
        for group in optimizer.param_groups:
            group["lr"] = warmup(step)
        optimizer.zero_grad()
        mel_hat, log_dur = model(phones, dur)
        dur = dur.to(device)
        mel_loss, dur_loss = losses(mel_hat, log_dur, phones, dur, mel)
        (mel_loss + 0.1 * dur_loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch_xla.sync()
        if (step + 1) % 6 == 0:
            print(f"step {step + 1} mel {mel_loss.item():.4f} dur {dur_loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
