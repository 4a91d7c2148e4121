"""Non-autoregressive acoustic model: phonemes + durations -> mel frames."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

SEED = 5
VOCAB = 44
MAX_PHONES = 24
MAX_FRAMES = 320
N_MELS = 20
DIM = 32
BATCH = 6
STEPS = 17


class Utterances(Dataset):
    """Random utterances, every field padded to the corpus maximum."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = []
        for _ in range(n):
            length = int(rng.integers(10, MAX_PHONES + 1))
            phones = np.zeros(MAX_PHONES, np.int64)
            durs = np.zeros(MAX_PHONES, np.int64)
            phones[:length] = rng.integers(1, VOCAB, length)
            durs[:length] = rng.integers(2, 13, length)
            frames = int(durs.sum())
            mel = np.zeros((MAX_FRAMES, N_MELS), np.float32)
            tone = np.repeat(phones[:length], durs[:length]) / VOCAB
            mel[:frames] = tone[:, None] + 0.1 * rng.normal(size=(frames, N_MELS))
            self.items.append((phones, durs, mel))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return tuple(torch.from_numpy(x) for x in self.items[i])


class ConvFF(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.c1 = nn.Conv1d(dim, dim, 5, padding=2)
        self.c2 = nn.Conv1d(dim, dim, 5, padding=2)

    def forward(self, x):
        h = self.c1(self.norm(x).transpose(1, 2))
        h = self.c2(F.relu(h)).transpose(1, 2)
        return x + h


class DurationPredictor(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = ConvFF(dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        return self.out(F.relu(self.body(x))).squeeze(-1)


class Aligner(nn.Module):
    """Spread phoneme states over frames according to integer durations."""

    def forward(self, states, durs):
        ends = durs.cumsum(1)
        starts = ends - durs
        n_frames = int(ends[:, -1].max())
        grid = torch.arange(n_frames, device=states.device).view(1, -1, 1)
        path = (grid >= starts.unsqueeze(1)) & (grid < ends.unsqueeze(1))
        path = path.to(states.dtype)
        return path @ states, path.sum(2)


class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM, padding_idx=0)
        self.enc = ConvFF(DIM)
        self.dur = DurationPredictor(DIM)
        self.align = Aligner()
        self.dec = ConvFF(DIM)
        self.to_mel = nn.Linear(DIM, N_MELS)

    def forward(self, phones, durs):
        h = self.enc(self.embed(phones))
        log_dur = self.dur(h.detach())
        frames, valid = self.align(h, durs)
        return self.to_mel(self.dec(frames)), valid, log_dur


def objective(out, phones, durs, mel):
    pred, valid, log_dur = out
    tok = (phones != 0).float()
    gap = (pred - mel[:, :pred.size(1)]).abs().mean(-1)
    mel_loss = (gap * valid).sum() / valid.sum()
    dur_loss = (tok * (log_dur - torch.log1p(durs.float())) ** 2).sum() / tok.sum()
    return mel_loss + 0.2 * dur_loss, mel_loss


def cycle(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    gen = torch.Generator().manual_seed(SEED)
    loader = DataLoader(Utterances(120, SEED), batch_size=BATCH, shuffle=True,
                        drop_last=True, generator=gen)
    model = Acoustic().to(device).train()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    warmup = torch.optim.lr_scheduler.LinearLR(opt, start_factor=0.1, total_iters=8)
    batches = cycle(loader)

    for step in range(STEPS):
        phones, durs, mel = (t.to(device) for t in next(batches))
        out = model(phones, durs)
        loss, mel_loss = objective(out, phones, durs, mel)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        warmup.step()
        xm.mark_step()
        if step % 5 == 4:
            print(f"step {step:3d} loss {loss.item():.4f} mel {mel_loss.item():.4f}")


if __name__ == "__main__":
    main()
