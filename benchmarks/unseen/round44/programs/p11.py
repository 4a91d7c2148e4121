"""Duration-based text-to-speech acoustic model (FastSpeech flavour) on synthetic
phoneme / mel pairs.  Phonemes and mels come padded to a fixed size."""
import argparse
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_PHONES, N_MELS = 40, 20
MAX_PHONES, MAX_FRAMES = 16, 80


class MelDataset(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        self.items = []
        table = rng.randn(N_PHONES, N_MELS).astype("float32")
        for _ in range(n):
            length = rng.randint(8, MAX_PHONES + 1)
            ph = rng.randint(1, N_PHONES, size=length)
            dur = rng.randint(1, 6, size=length)
            mel = np.repeat(table[ph], dur, axis=0)
            mel = mel + 0.1 * rng.randn(*mel.shape).astype("float32")
            self.items.append((ph, dur, mel))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        ph, dur, mel = self.items[i]
        phones = np.zeros(MAX_PHONES, dtype="int64")
        durs = np.zeros(MAX_PHONES, dtype="int64")
        mels = np.zeros((MAX_FRAMES, N_MELS), dtype="float32")
        mask = np.zeros(MAX_FRAMES, dtype="float32")
        phones[: len(ph)] = ph
        durs[: len(dur)] = dur
        mels[: len(mel)] = mel
        mask[: len(mel)] = 1.0
        return phones, durs, mels, mask


class ConvBlock(nn.Module):
    def __init__(self, dim, kernel=5):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, kernel, padding=kernel // 2)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        h = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.norm(x + F.gelu(h))


class DurationPredictor(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.block = ConvBlock(dim, 3)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        return self.out(self.block(x)).squeeze(-1)


class LengthRegulator(nn.Module):
    """Expands phoneme states to frame states."""

    def __init__(self, max_frames):
        super().__init__()
        self.max_frames = max_frames

    def forward(self, states, durations):
        frames = []
        for h, d in zip(states, durations):
            f = torch.repeat_interleave(h, d, dim=0)
            frames.append(F.pad(f, (0, 0, 0, self.max_frames - f.size(0))))
        return torch.stack(frames)


class AcousticModel(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(N_PHONES, dim, padding_idx=0)
        self.encoder = ConvBlock(dim)
        self.durations = DurationPredictor(dim)
        self.regulator = LengthRegulator(MAX_FRAMES)
        pos = torch.arange(MAX_FRAMES).float()[:, None]
        freq = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(1e4) / dim))
        self.register_buffer("pe", torch.cat([torch.sin(pos * freq), torch.cos(pos * freq)], 1))
        self.decoder = ConvBlock(dim)
        self.to_mel = nn.Linear(dim, N_MELS)

    def forward(self, phones, durs):
        h = self.encoder(self.embed(phones))
        log_dur = self.durations(h.detach())
        frames = self.regulator(h, durs)
        mel = self.to_mel(self.decoder(frames + self.pe))
        return mel, log_dur


def loss_fn(mel, target, mask, log_dur, durs, phones):
    l1 = ((mel - target).abs().mean(-1) * mask).sum() / mask.sum()
    valid = (phones != 0).float()
    d = ((log_dur - torch.log1p(durs.float())) ** 2 * valid).sum() / valid.sum()
    return l1 + 0.1 * d, l1.detach(), d.detach()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=3)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    device = torch_xla.device()

    train = MelDataset(20, seed=1)
    loader = torch.utils.data.DataLoader(
        train, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = AcousticModel().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.98))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 8))

    step = 0
    for epoch in range(args.epochs):
        model.train()
        total = torch.zeros((), device=device)
        for batch in loader:
            phones, durs, mels, mask = (t.to(device) for t in batch)
            opt.zero_grad()
            mel, log_dur = model(phones, durs)
            loss, l1, _ = loss_fn(mel, mels, mask, log_dur, durs, phones)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total = total + l1
            torch_xla.sync()
            step += 1
        print(f"epoch {epoch} step {step} mel-l1 {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
