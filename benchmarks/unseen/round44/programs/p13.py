"""Character-level autoregressive training on mixed-length documents.  Every micro-batch
is padded to the same [rows, seq] block; an update is taken once enough real tokens
have been seen, and the token budget of an update is warmed up like the rate."""
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB = 64
SEQ = 48
ROWS = 2
MIN_TOKENS, MAX_TOKENS = 64, 320
UPDATES = 24
PAD = 0


class Documents:
    """Endless stream of padded micro-batches, all of shape [ROWS, SEQ]."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)
        trans = self.rng.dirichlet(np.full(VOCAB - 1, 0.05), size=VOCAB)
        self.cdf = trans.cumsum(1)

    def document(self):
        n = int(np.clip(self.rng.lognormal(2.9, 1.0), 6, SEQ + 1))
        out = np.zeros(n, dtype="int64")
        out[0] = self.rng.randint(1, VOCAB)
        for i in range(1, n):
            u = self.rng.rand()
            out[i] = 1 + min(VOCAB - 2, int(np.searchsorted(self.cdf[out[i - 1]], u)))
        return out

    def __iter__(self):
        while True:
            block = np.full((ROWS, SEQ + 1), PAD, dtype="int64")
            for r in range(ROWS):
                doc = self.document()
                block[r, : len(doc)] = doc
            yield torch.from_numpy(block)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) / math.sqrt(q.size(-1)) + bias
        y = (att.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(y)
        return x + self.mlp(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self, dim=32, heads=2, layers=1):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(torch.zeros(SEQ, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(dim)
        nn.init.normal_(self.tok.weight, std=0.1)
        self.register_buffer("bias", torch.full((SEQ, SEQ), -1e9).triu(1))

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for blk in self.blocks:
            x = blk(x, self.bias)
        return self.ln(x) @ self.tok.weight.t()


def cosine(step, base=3e-3, warmup=5):
    if step < warmup:
        return base * (step + 1) / warmup
    p = (step - warmup) / max(1, UPDATES - warmup)
    return base * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * p)))


def token_budget(step, ramp=16):
    return int(MIN_TOKENS + (MAX_TOKENS - MIN_TOKENS) * min(1.0, step / ramp))


def update(model, opt, stream, budget, device):
    """One optimizer step; returns the summed loss and the number of tokens."""
    opt.zero_grad(set_to_none=False)
    loss_sum = torch.zeros((), device=device)
    tokens = 0
    while tokens < budget:
        block = next(stream)
        tokens += int((block[:, 1:] != PAD).sum())
        block = block.to(device)
        logits = model(block[:, :-1])
        loss = F.cross_entropy(
            logits.reshape(-1, VOCAB), block[:, 1:].reshape(-1),
            ignore_index=PAD, reduction="sum")
        (loss / budget).backward()
        loss_sum += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    torch_xla.sync()
    return loss_sum, tokens


def main():
    torch.manual_seed(11)
    device = torch_xla.device()
    stream = iter(Documents(seed=11))
    model = CharLM().to(device)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    torch_xla.sync()

    seen, start = 0, time.time()
    for step in range(UPDATES):
        for group in opt.param_groups:
            group["lr"] = cosine(step)
        loss_sum, tokens = update(model, opt, stream, token_budget(step), device)
        seen += tokens
        if (step + 1) % 6 == 0:
            rate = seen / (time.time() - start)
            print(f"update {step + 1} loss {loss_sum.item() / tokens:.3f} "
                  f"tokens {seen} ({rate:.0f}/s)")


if __name__ == "__main__":
    main()
