import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

# Continued training of a small decoder, LISA recipe (layerwise importance
# sampled AdamW), bigram-ish synthetic corpus.
VOCAB = 96
DIM, HEADS, LAYERS = 32, 2, 6
CTX, BATCH = 24, 8
STEPS = 48
SWITCH_EVERY = 3
ACTIVE = 2


def make_corpus(n, seed):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(VOCAB, 0.05), size=VOCAB)
    cdf = table.cumsum(1)
    out = np.zeros(n, dtype=np.int64)
    u = rng.random(n)
    for i in range(1, n):
        out[i] = min(int(np.searchsorted(cdf[out[i - 1]], u[i])), VOCAB - 1)
    return out


class Windows:
    def __init__(self, corpus, seed):
        self.corpus = corpus
        self.rng = np.random.default_rng(seed)

    def next(self):
        starts = self.rng.integers(0, len(self.corpus) - CTX - 1, size=BATCH)
        rows = np.stack([self.corpus[s:s + CTX + 1] for s in starts])
        rows = torch.from_numpy(rows)
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attn = Attention()
        self.mlp = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Parameter(torch.zeros(CTX, DIM))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.05)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x))


class LayerSampler:
    def __init__(self, blocks, n_active, every, seed):
        self.blocks = blocks
        self.n_active = n_active
        self.every = every
        self.rng = random.Random(seed)
        self.active = []

    def on_step_begin(self, step):
        if step % self.every != 0:
            return
        self.active = sorted(self.rng.sample(range(len(self.blocks)), self.n_active))
        for i, blk in enumerate(self.blocks):
            blk.requires_grad_(i in self.active)


def param_groups(model, wd):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": decay, "weight_decay": wd}, {"params": plain, "weight_decay": 0.0}]


def main():
    torch.manual_seed(13)
    device = torch_xla.device()
    data = Windows(make_corpus(6000, seed=1), seed=2)
    model = Decoder().to(device)
    opt = torch.optim.AdamW(param_groups(model, 0.05), lr=2e-3, betas=(0.9, 0.95))
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.1, total_iters=STEPS)
    lisa = LayerSampler(model.blocks, ACTIVE, SWITCH_EVERY, seed=29)
    torch_xla.sync()

    window = torch.zeros((), device=device)
    for step in range(STEPS):
        lisa.on_step_begin(step)
        ids, labels = data.next()
        ids, labels = ids.to(device), labels.to(device)
        logits = model(ids)
        loss = F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1))
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        sched.step()
        window.add_(loss.detach())
        torch_xla.sync()
        if (step + 1) % 8 == 0:
            print(f"step {step + 1:3d} active {lisa.active} loss {window.item() / 8:.4f}")
            window = torch.zeros((), device=device)


if __name__ == "__main__":
    main()
