"""Masked-residue pretraining of a small protein encoder on length buckets."""
import copy
import math
import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

AA = "ACDEFGHIKLMNPQRSTVWY"
PAD, MASK, OFFSET = 0, 1, 2
VOCAB = len(AA) + OFFSET
BUCKETS = {32: 24, 64: 12, 96: 8}  # length -> batch size
TOTAL_STEPS = 60
EMA_EVERY = 4
EVAL_EVERY = 15


def make_proteins(n, rng):
    motifs = ["".join(rng.choice(list(AA), 6)) for _ in range(12)]
    out = []
    for _ in range(n):
        length = int(np.clip(rng.gamma(3.0, 16.0), 12, 96))
        seq = ""
        while len(seq) < length:
            seq += motifs[rng.integers(len(motifs))] if rng.random() < 0.7 else AA[rng.integers(20)]
        out.append(seq[:length])
    return out


def encode(seq):
    return np.array([AA.index(c) + OFFSET for c in seq], dtype=np.int64)


class BucketSampler:
    """Yields full batches only; leftovers stay in the bucket for the next round."""

    def __init__(self, seqs, rng):
        self.rng = rng
        self.items = {b: [] for b in BUCKETS}
        for s in seqs:
            self.items[min(b for b in BUCKETS if len(s) <= b)].append(encode(s))

    def epoch(self):
        plan = []
        for length, size in BUCKETS.items():
            order = self.rng.permutation(len(self.items[length]))
            for i in range(0, len(order) - size + 1, size):
                plan.append((length, order[i:i + size]))
        self.rng.shuffle(plan)
        for length, idx in plan:
            batch = np.zeros((len(idx), length), dtype=np.int64)
            for row, i in enumerate(idx):
                s = self.items[length][i]
                batch[row, :len(s)] = s
            yield batch


def corrupt(batch, rng, rate):
    real = batch != PAD
    chosen = real & (rng.random(batch.shape) < rate)
    labels = np.where(chosen, batch, -100)
    return np.where(chosen, MASK, batch), labels


class Encoder(nn.Module):
    def __init__(self, dim=48, heads=4, layers=2, max_len=96):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(max_len, dim) * 0.02)
        block = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.1, batch_first=True, norm_first=True)
        self.blocks = nn.ModuleList(copy.deepcopy(block) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        pad = torch.zeros(ids.shape, device=ids.device).masked_fill(ids == PAD, -1e4)
        x = self.tok(ids) + self.pos[:ids.shape[1]]
        for blk in self.blocks:
            x = blk(x, src_key_padding_mask=pad)
        return self.norm(x) @ self.tok.weight.t()


def mlm_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def lr_at(step, base=3e-3, warmup=8):
    if step < warmup:
        return base * (step + 1) / warmup
    progress = (step - warmup) / (TOTAL_STEPS - warmup)
    return base * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


@torch.no_grad()
def update_ema(ema, model, decay):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p, 1.0 - decay)


@torch.no_grad()
def evaluate(ema, batches, device):
    ema.eval()
    total = torch.zeros((), device=device)
    for ids, labels in batches:
        total += mlm_loss(ema(ids.to(device)), labels.to(device))
        torch_xla.sync()
    return total.item() / len(batches)


def main():
    random.seed(3)
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    device = torch_xla.device()

    sampler = BucketSampler(make_proteins(420, rng), rng)
    held_out = BucketSampler(make_proteins(60, rng), rng)
    val = []
    for batch in held_out.epoch():
        if batch.shape[1] == 64:
            ids, labels = corrupt(batch, np.random.default_rng(0), 0.15)
            val.append((torch.from_numpy(ids), torch.from_numpy(labels)))

    model = Encoder().to(device)
    ema = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98))

    step = 0
    while step < TOTAL_STEPS:
        for batch in sampler.epoch():
            rate = 0.10 + 0.15 * step / TOTAL_STEPS
            ids, labels = corrupt(batch, rng, rate)
            ids, labels = torch.from_numpy(ids).to(device), torch.from_numpy(labels).to(device)
            for group in optimizer.param_groups:
                group["lr"] = lr_at(step)
            model.train()
            optimizer.zero_grad()
            loss = mlm_loss(model(ids), labels)
            loss.backward()
            xm.optimizer_step(optimizer)
            torch_xla.sync()
            step += 1

            if step % EMA_EVERY == 0:
                update_ema(ema, model, decay=min(0.99, (1 + step) / (10 + step)))
                torch_xla.sync()
            if step % 10 == 0:
                print(f"step {step:3d}  len {batch.shape[1]}  loss {loss.item():.4f}")
            if step % EVAL_EVERY == 0:
                print(f"step {step:3d}  ema val {evaluate(ema, val, device):.4f}")
            if step >= TOTAL_STEPS:
                break


if __name__ == "__main__":
    main()
