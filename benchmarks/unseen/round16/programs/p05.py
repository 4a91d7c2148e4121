"""Next-note model for folk melodies of a few standard lengths."""
import math
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

PAD, BOS = 0, 1
VOCAB = 40
BUCKETS = (16, 24, 32)
BATCH = 12
EPOCHS = 4


def compose(n, seed):
    rng = random.Random(seed)
    tunes = []
    for _ in range(n):
        scale = [rng.randrange(2, 8) + d for d in (0, 2, 4, 5, 7, 9, 11, 12)]
        pos, tune = rng.randrange(8), [BOS]
        for _ in range(rng.randrange(8, BUCKETS[-1])):
            pos = min(7, max(0, pos + rng.choice((-2, -1, -1, 0, 1, 1, 2))))
            tune.append(scale[pos] + 2)
        tunes.append(tune)
    return tunes


class Tunes(Dataset):
    def __init__(self, tunes):
        self.tunes = tunes

    def __len__(self):
        return len(self.tunes)

    def __getitem__(self, i):
        return self.tunes[i]


def bucket_of(n):
    return next(b for b in BUCKETS if n <= b)


class BucketBatches(Sampler):
    """Full batches only, each from one length bucket; order reshuffled every epoch."""

    def __init__(self, tunes, batch, seed, shuffle=True):
        self.groups = defaultdict(list)
        for i, t in enumerate(tunes):
            self.groups[bucket_of(len(t))].append(i)
        self.batch, self.shuffle = batch, shuffle
        self.rng = random.Random(seed)

    def __len__(self):
        return sum(len(g) // self.batch for g in self.groups.values())

    def __iter__(self):
        out = []
        for b in BUCKETS:
            idx = list(self.groups[b])
            if self.shuffle:
                self.rng.shuffle(idx)
            out += [idx[k:k + self.batch] for k in range(0, len(idx) - self.batch + 1, self.batch)]
        if self.shuffle:
            self.rng.shuffle(out)
        return iter(out)


def collate(rows):
    size = max(bucket_of(len(r)) for r in rows)
    out = torch.full((len(rows), size), PAD, dtype=torch.long)
    for i, r in enumerate(rows):
        out[i, : len(r)] = torch.tensor(r)
    return out


class NoteModel(nn.Module):
    def __init__(self, width=32, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, width)
        self.pos = nn.Embedding(BUCKETS[-1], width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, VOCAB)

    def forward(self, x):
        n = x.size(1)
        causal = torch.triu(torch.ones(n, n, dtype=torch.bool, device=x.device), 1)
        h = self.tok(x) + self.pos(torch.arange(n, device=x.device))
        for blk in self.blocks:
            h = blk(h, src_mask=causal)
        return self.out(self.norm(h))


def note_loss(model, x):
    logits = model(x[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten(), ignore_index=PAD)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    losses = []
    for x in loader:
        losses.append(note_loss(model, x).item())
    model.train()
    return math.exp(sum(losses) / len(losses))


def main():
    torch.manual_seed(7)
    device = torch_xla.device()
    train, valid = compose(320, 1), compose(96, 2)
    train_dl = DataLoader(Tunes(train), batch_sampler=BucketBatches(train, BATCH, 3), collate_fn=collate)
    valid_dl = DataLoader(Tunes(valid), batch_sampler=BucketBatches(valid, BATCH, 3, shuffle=False), collate_fn=collate)
    model = NoteModel().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    total = EPOCHS * len(train_dl)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 0.1 + 0.8 * (1 - s / total))

    for epoch in range(EPOCHS):
        seen = 0
        for x in pl.MpDeviceLoader(train_dl, device):
            opt.zero_grad()
            loss = note_loss(model, x)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            xm.optimizer_step(opt)
            sched.step()
            seen += x.numel()
        ppl = evaluate(model, pl.MpDeviceLoader(valid_dl, device))
        xm.master_print(f"epoch {epoch}  tokens {seen}  valid perplexity {ppl:.2f}  lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
