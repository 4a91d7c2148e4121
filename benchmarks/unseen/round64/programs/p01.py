"""Non-autoregressive acoustic model (phonemes -> mel) trained with ground-truth durations."""
import argparse
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm

N_PHONES = 48
N_MELS = 20
TEXT_LEN = 24


class ToyCorpus(Dataset):
    """Utterances of up to TEXT_LEN phones; each phone lasts 1..6 frames."""

    def __init__(self, size, seed):
        rng = np.random.RandomState(seed)
        proto = rng.randn(N_PHONES, N_MELS).astype("float32")
        self.items = []
        for _ in range(size):
            n = rng.randint(8, TEXT_LEN + 1)
            phones = rng.randint(1, N_PHONES, size=n)
            durs = rng.randint(1, 7, size=n)
            mel = np.repeat(proto[phones], durs, axis=0)
            mel = mel + 0.1 * rng.randn(*mel.shape).astype("float32")
            self.items.append((phones, durs, mel))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Collate:
    def __init__(self, frames_per_step=2):
        self.r = frames_per_step

    def __call__(self, batch):
        b = len(batch)
        longest = max(mel.shape[0] for _, _, mel in batch)
        n_frames = math.ceil(longest / self.r) * self.r
        phones = torch.zeros(b, TEXT_LEN, dtype=torch.long)
        durs = torch.zeros(b, TEXT_LEN, dtype=torch.long)
        mels = torch.zeros(b, n_frames, N_MELS)
        mel_lens = torch.zeros(b, dtype=torch.long)
        for i, (p, d, m) in enumerate(batch):
            phones[i, :len(p)] = torch.from_numpy(p)
            durs[i, :len(d)] = torch.from_numpy(d)
            mels[i, :len(m)] = torch.from_numpy(m)
            mel_lens[i] = len(m)
        return phones, durs, mels, mel_lens


class ConvStack(nn.Module):
    def __init__(self, dim, layers, kernel=3):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(dim, dim, kernel, padding=kernel // 2) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))

    def forward(self, x, mask):
        for conv, norm in zip(self.convs, self.norms):
            h = conv((x * mask).transpose(1, 2)).transpose(1, 2)
            x = norm(x + F.relu(h))
        return x * mask


class LengthRegulator(nn.Module):
    def forward(self, x, durations, n_frames):
        ends = durations.cumsum(1)
        pos = torch.arange(n_frames, device=x.device)
        idx = (pos[None, :, None] >= ends[:, None, :]).sum(-1)
        idx = idx.clamp(max=x.size(1) - 1)
        return x.gather(1, idx[..., None].expand(-1, -1, x.size(-1)))


class AcousticModel(nn.Module):
    def __init__(self, dim=16, r=2):
        super().__init__()
        self.r = r
        self.embed = nn.Embedding(N_PHONES, dim, padding_idx=0)
        self.encoder = ConvStack(dim, 2)
        self.dur_head = nn.Linear(dim, 1)
        self.regulate = LengthRegulator()
        self.decoder = ConvStack(dim, 2)
        self.to_mel = nn.Linear(dim * r, N_MELS * r)

    def forward(self, phones, durs, n_frames, mel_mask):
        text_mask = (phones != 0).unsqueeze(-1).float()
        h = self.encoder(self.embed(phones), text_mask)
        log_dur = self.dur_head(h).squeeze(-1)
        h = self.decoder(self.regulate(h, durs, n_frames), mel_mask)
        b, t, d = h.shape
        mel = self.to_mel(h.reshape(b, t // self.r, d * self.r)).reshape(b, t, N_MELS)
        return mel, log_dur, text_mask.squeeze(-1)


def masked_mean(x, mask):
    return (x * mask).sum() / mask.sum().clamp(min=1.0)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=30)
    ap.add_argument("--batch-size", type=int, default=4)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()

    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)
    device = torch_xla.device()

    loader = DataLoader(ToyCorpus(160, seed=7), batch_size=args.batch_size, shuffle=True,
                        drop_last=True, collate_fn=Collate(frames_per_step=2))
    model = AcousticModel().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98))

    model.train()
    step = 0
    while step < args.steps:
        for phones, durs, mels, mel_lens in loader:
            phones, durs = phones.to(device), durs.to(device)
            mels, mel_lens = mels.to(device), mel_lens.to(device)
            frame = torch.arange(mels.size(1), device=device)
            mel_mask = (frame[None] < mel_lens[:, None]).unsqueeze(-1).float()

            mel_hat, log_dur, text_mask = model(phones, durs, mels.size(1), mel_mask)
            mel_loss = masked_mean((mel_hat - mels).abs().mean(-1), mel_mask.squeeze(-1))
            dur_loss = masked_mean((log_dur - torch.log1p(durs.float())) ** 2, text_mask)
            loss = mel_loss + 0.1 * dur_loss

            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            xm.mark_step()

            if step % 10 == 0:
                print(f"step {step:3d}  mel {mel_loss.item():.4f}  dur {dur_loss.item():.4f}")
            step += 1
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
