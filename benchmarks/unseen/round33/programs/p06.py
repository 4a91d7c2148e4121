"""Toy translation (reverse + relabel) with length buckets and gradient accumulation."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

PAD, BOS, EOS, VOCAB = 0, 1, 2, 64
BUCKETS = (8, 12, 20)
BATCH, ACCUM = 16, 2
MICRO_STEPS = 64
EVAL_EVERY = 16


def sample_pair(rng):
    n = int(rng.integers(3, BUCKETS[-1] - 1))
    src = rng.integers(3, VOCAB, n).tolist()
    tgt = [3 + (t * 7) % (VOCAB - 3) for t in reversed(src)]
    return src + [EOS], [BOS] + tgt + [EOS]


class BucketedPairs(torch.utils.data.IterableDataset):
    """Fills one queue per bucket and yields a padded batch whenever a queue is full."""

    def __init__(self, seed, n_batches):
        self.seed, self.n_batches = seed, n_batches

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        queues = {b: [] for b in BUCKETS}
        made = 0
        while made < self.n_batches:
            src, tgt = sample_pair(rng)
            room = next(b for b in BUCKETS if len(src) <= b)
            queues[room].append((src, tgt))
            if len(queues[room]) == BATCH:
                yield self.pad(queues[room], room)
                queues[room] = []
                made += 1

    @staticmethod
    def pad(pairs, room):
        src = torch.full((BATCH, room), PAD)
        tgt = torch.full((BATCH, room + 1), PAD)
        for i, (s, t) in enumerate(pairs):
            src[i, :len(s)] = torch.tensor(s)
            tgt[i, :len(t)] = torch.tensor(t)
        return src, tgt


def positions(length, dim):
    pos = torch.arange(length).float()[:, None]
    freq = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10000.0) / dim))
    return torch.stack([torch.sin(pos * freq), torch.cos(pos * freq)], -1).flatten(1)


class Translator(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.register_buffer("pos", positions(BUCKETS[-1] + 1, dim), persistent=False)
        self.enc = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.cross = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.past = nn.Linear(2 * dim, dim)
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.drop = nn.Dropout(0.1)

    def forward(self, src, tgt):
        gap = (src == PAD)
        h = self.emb(src) + self.pos[:src.shape[1]]
        h = self.norm[0](h + self.drop(self.enc(h, h, h, key_padding_mask=gap, need_weights=False)[0]))
        g = self.emb(tgt) + self.pos[:tgt.shape[1]]
        before = F.pad(g, (0, 0, 1, 0))[:, :-1]
        g = torch.tanh(self.past(torch.cat([g, before], -1)))
        g = self.norm[1](g + self.drop(self.cross(g, h, h, key_padding_mask=gap, need_weights=False)[0]))
        return g @ self.emb.weight.t()


def token_loss(logits, gold):
    return F.cross_entropy(logits.flatten(0, 1), gold.flatten(), ignore_index=PAD, label_smoothing=0.05)


@torch.no_grad()
def validate(model, device, sets):
    model.eval()
    right, count = torch.zeros((), device=device), torch.zeros((), device=device)
    for src, tgt in sets:
        guess = model(src, tgt[:, :-1]).argmax(-1)
        keep = tgt[:, 1:] != PAD
        right += ((guess == tgt[:, 1:]) & keep).sum()
        count += keep.sum()
    torch_xla.sync()
    model.train()
    return (right / count).item()


def main():
    random.seed(2)
    torch.manual_seed(2)
    device = torch_xla.device()
    model = Translator().to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 6))
    dev = [(s.to(device), t.to(device)) for s, t in BucketedPairs(77, 3)]

    raw = torch.utils.data.DataLoader(BucketedPairs(1, MICRO_STEPS), batch_size=None)
    loader = pl.MpDeviceLoader(raw, device)
    smooth = torch.zeros((), device=device)
    for micro, (src, tgt) in enumerate(loader, 1):
        loss = token_loss(model(src, tgt[:, :-1]), tgt[:, 1:])
        (loss / ACCUM).backward()
        smooth = 0.9 * smooth + 0.1 * loss.detach()
        if micro % ACCUM == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            xm.optimizer_step(opt)
            warm.step()
            opt.zero_grad()
        if micro % EVAL_EVERY == 0:
            torch_xla.sync()
            acc = validate(model, device, dev)
            print(f"micro {micro} loss {smooth.item():.3f} dev token acc {acc:.3f}")


if __name__ == "__main__":
    main()
