"""Non-autoregressive acoustic model: phonemes and durations in, mel frames out."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.nn.utils.rnn import pad_sequence

N_PHONES, N_MELS, TEXT_LEN = 30, 20, 14


class Corpus:
    """Each phone has its own spectral shape and typical length; every reading of it differs a little."""

    def __init__(self, seed=0, n=54):
        g = torch.Generator().manual_seed(seed)
        shapes = torch.randn(N_PHONES, N_MELS, generator=g)
        typical = torch.randint(2, 7, (N_PHONES,), generator=g)
        self.items = []
        for _ in range(n):
            ph = torch.randint(1, N_PHONES, (TEXT_LEN,), generator=g)
            dur = (typical[ph] + torch.randint(-1, 3, (TEXT_LEN,), generator=g)).clamp(min=1)
            mel = shapes[ph].repeat_interleave(dur, 0)
            mel = mel + 0.1 * torch.randn(mel.shape, generator=g)
            pitch = mel[:, :4].mean(1)
            self.items.append((ph, dur, mel, pitch))
        self.max_frames = 112

    def batches(self, bs, g):
        order = torch.randperm(len(self.items), generator=g).tolist()
        for s in range(0, len(order) - bs + 1, bs):
            rows = [self.items[i] for i in order[s:s + bs]]
            ph = torch.stack([r[0] for r in rows])
            dur = torch.stack([r[1] for r in rows])
            mel = torch.zeros(bs, self.max_frames, N_MELS)
            pitch = torch.zeros(bs, self.max_frames)
            for k, r in enumerate(rows):
                mel[k, :len(r[2])] = r[2]
                pitch[k, :len(r[3])] = r[3]
            yield ph, dur, mel, pitch


class ConvBlock(nn.Module):
    def __init__(self, dim, kernel=5):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, 2 * dim, kernel, padding=kernel // 2)
        self.back = nn.Linear(2 * dim, dim)

    def forward(self, x):
        h = F.gelu(self.conv(self.norm(x).transpose(1, 2)).transpose(1, 2))
        return x + self.back(h)


class Predictor(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.LayerNorm(dim), nn.Dropout(0.1), nn.Linear(dim, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class LengthRegulator(nn.Module):
    def forward(self, x, dur):
        out = [row.repeat_interleave(d, dim=0) for row, d in zip(x, dur)]
        return pad_sequence(out, batch_first=True)


class AcousticModel(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.emb = nn.Embedding(N_PHONES, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(TEXT_LEN, dim))
        self.encoder = ConvBlock(dim)
        self.duration, self.pitch = Predictor(dim), Predictor(dim)
        self.pitch_emb = nn.Linear(1, dim)
        self.regulator = LengthRegulator()
        self.decoder = ConvBlock(dim)
        self.mel = nn.Linear(dim, N_MELS)

    def forward(self, ph, dur):
        h = self.encoder(self.emb(ph) + self.pos)
        log_d = self.duration(h.detach())
        h = self.regulator(h, dur)
        p = self.pitch(h)
        return self.mel(self.decoder(h + self.pitch_emb(p.unsqueeze(-1)))), log_d, p


def criterion(out, dur, mel, pitch):
    pred, log_d, p = out
    n = pred.size(1)
    mask = (torch.arange(n, device=dur.device)[None] < dur.sum(1, keepdim=True)).float()
    l_mel = ((pred - mel[:, :n]).abs().mean(-1) * mask).sum() / mask.sum()
    l_pitch = ((p - pitch[:, :n]) ** 2 * mask).sum() / mask.sum()
    return l_mel + 0.1 * l_pitch + 0.1 * F.mse_loss(log_d, torch.log1p(dur.float())), l_mel


def main(epochs=2, bs=6):
    torch.manual_seed(8)
    g = torch.Generator().manual_seed(8)
    device = torch_xla.device()
    corpus = Corpus(seed=8)
    model = AcousticModel().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
    warmup = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 8))
    step = 0
    for epoch in range(epochs):
        for batch in corpus.batches(bs, g):
            ph, dur, mel, pitch = (t.to(device) for t in batch)
            opt.zero_grad(set_to_none=True)
            loss, l_mel = criterion(model(ph, dur), dur, mel, pitch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            warmup.step()
            torch_xla.sync()
            step += 1
            if step % 6 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} mel {l_mel.item():.4f}")


if __name__ == "__main__":
    main()
