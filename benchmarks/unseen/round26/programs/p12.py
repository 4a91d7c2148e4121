# Tiny FastSpeech-style acoustic model: phonemes -> durations -> mel frames.
# Synthetic corpus; durations come from a (fake) aligner.
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset


def build_corpus(n, text_len, max_frames, n_phones, n_mels, generator):
    phones = torch.randint(1, n_phones, (n, text_len), generator=generator)
    durs = torch.randint(1, 6, (n, text_len), generator=generator)
    lens = torch.randint(text_len // 2, text_len + 1, (n,), generator=generator)
    pos = torch.arange(text_len)
    phones = phones.masked_fill(pos[None] >= lens[:, None], 0)
    durs = durs.masked_fill(pos[None] >= lens[:, None], 0)
    proto = torch.randn(n_phones, n_mels, generator=generator)
    mels = torch.zeros(n, max_frames, n_mels)
    for i in range(n):
        frames = proto[phones[i]].repeat_interleave(durs[i], dim=0)[:max_frames]
        mels[i, :len(frames)] = frames + 0.1 * torch.randn(frames.shape, generator=generator)
    return phones, durs, mels


class ConvBlock(nn.Module):
    def __init__(self, d, k=3):
        super().__init__()
        self.conv = nn.Conv1d(d, d, k, padding=k // 2)
        self.norm = nn.LayerNorm(d)

    def forward(self, x):
        y = F.relu(self.conv(x.transpose(1, 2)).transpose(1, 2))
        return self.norm(x + y)


class LengthRegulator(nn.Module):
    """Repeats every encoder state for as many frames as its duration says."""

    def forward(self, h, durations, max_len=None):
        ends = durations.cumsum(1)
        if max_len is None:
            max_len = int(ends[:, -1].max())
        frame = torch.arange(max_len, device=h.device)
        index = (frame[None, :, None] >= ends[:, None, :]).sum(-1)
        valid = index < h.shape[1]
        index = index.clamp(max=h.shape[1] - 1)
        out = h.gather(1, index[..., None].expand(-1, -1, h.shape[-1]))
        return out * valid[..., None], valid


class FastSpeechLite(nn.Module):
    def __init__(self, n_phones, n_mels, d=32):
        super().__init__()
        self.embed = nn.Embedding(n_phones, d, padding_idx=0)
        self.encoder = ConvBlock(d)
        self.duration = nn.Sequential(ConvBlock(d), nn.Linear(d, 1))
        self.regulate = LengthRegulator()
        self.decoder = ConvBlock(d)
        self.to_mel = nn.Linear(d, n_mels)

    def forward(self, phones, durations):
        h = self.encoder(self.embed(phones))
        log_dur = self.duration(h.detach()).squeeze(-1)
        frames, valid = self.regulate(h, durations)
        mel = self.to_mel(self.decoder(frames))
        return mel, valid, log_dur


def tts_loss(mel, valid, log_dur, target, durations, phones):
    target = target[:, :mel.shape[1]]
    w = valid.float()[..., None]
    l_mel = ((mel - target).abs() * w).sum() / (w.sum() * mel.shape[-1])
    text = (phones != 0).float()
    l_dur = ((log_dur - torch.log1p(durations.float())) ** 2 * text).sum() / text.sum()
    return l_mel + 0.1 * l_dur, l_mel, l_dur


def train(args):
    g = torch.Generator().manual_seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    phones, durs, mels = build_corpus(args.n, args.text_len, args.max_frames, args.phones, args.mels, g)
    loader = DataLoader(TensorDataset(phones, durs, mels), batch_size=args.batch, shuffle=True,
                        drop_last=True, generator=g)
    model = FastSpeechLite(args.phones, args.mels).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98))
    step = 0
    for epoch in range(args.epochs):
        for batch in loader:
            p, d, m = (t.to(device) for t in batch)
            mel, valid, log_dur = model(p, d)
            loss, l_mel, l_dur = tts_loss(mel, valid, log_dur, m, d, p)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            torch_xla.sync()
            step += 1
            if step % args.log_every == 0:
                print(f"[{epoch}] step {step:4d} mel {l_mel.item():.3f} dur {l_dur.item():.3f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--n", type=int, default=96)
    ap.add_argument("--text-len", type=int, default=16)
    ap.add_argument("--max-frames", type=int, default=80)
    ap.add_argument("--phones", type=int, default=24)
    ap.add_argument("--mels", type=int, default=10)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--log-every", type=int, default=6)
    ap.add_argument("--seed", type=int, default=11)
    train(ap.parse_args())
