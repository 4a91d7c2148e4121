"""Sequence-to-sequence transliteration with length buckets."""
import itertools
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

PAD, BOS, EOS = 0, 1, 2
ALPHABET = 20
BUCKETS = (6, 10, 16)


class PositionalEmbedding(nn.Module):
    def __init__(self, vocab, dim, max_len=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.pos = nn.Embedding(max_len, dim)

    def forward(self, ids):
        return self.tok(ids) + self.pos.weight[:ids.size(1)]


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mem, mask):
        s = self.q(x) @ self.k(mem).transpose(1, 2) / x.size(-1) ** 0.5
        return self.o(torch.softmax(s.masked_fill(~mask, -1e4), -1) @ self.v(mem))


class Seq2Seq(nn.Module):
    def __init__(self, vocab, dim=24):
        super().__init__()
        self.src_emb, self.tgt_emb = PositionalEmbedding(vocab, dim), PositionalEmbedding(vocab, dim)
        self.enc_att, self.dec_att, self.cross = Attention(dim), Attention(dim), Attention(dim)
        self.enc_ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.dec_ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.out = nn.Linear(dim, vocab)

    def forward(self, src, tgt_in):
        smask = (src != PAD)[:, None]
        causal = torch.ones(tgt_in.size(1), tgt_in.size(1), dtype=torch.bool, device=src.device).tril()
        m = self.src_emb(src)
        m = m + self.enc_att(m, m, smask)
        m = m + self.enc_ff(m)
        y = self.tgt_emb(tgt_in)
        y = y + self.dec_att(y, y, causal[None])
        y = y + self.cross(y, m, smask)
        return self.out(y + self.dec_ff(y))


def make_pair(rng):
    n = rng.randint(3, BUCKETS[-1] - 1)
    word = [rng.randint(3, ALPHABET + 2) for _ in range(n)]
    return word, [3 + (c * 7 + i) % ALPHABET for i, c in enumerate(word)]


def pad_to(seq, length):
    return seq + [PAD] * (length - len(seq))


class BucketedLoader:
    def __init__(self, pairs, batch_size, seed=0):
        self.batch_size, self.rng = batch_size, random.Random(seed)
        self.buckets = {b: [] for b in BUCKETS}
        for src, tgt in pairs:
            self.buckets[next(b for b in BUCKETS if len(src) < b)].append((src, tgt))

    def epoch(self):
        batches = []
        for width, items in self.buckets.items():
            self.rng.shuffle(items)
            for i in range(0, len(items) - self.batch_size + 1, self.batch_size):
                batches.append((width, items[i:i + self.batch_size]))
        self.rng.shuffle(batches)
        for width, items in batches:
            src = torch.tensor([pad_to(s, width) for s, _ in items])
            tgt_in = torch.tensor([pad_to([BOS] + t, width) for _, t in items])
            tgt_out = torch.tensor([pad_to(t + [EOS], width) for _, t in items])
            yield src, tgt_in, tgt_out


def main():
    torch.manual_seed(8)
    rng = random.Random(8)
    device = torch_xla.device()
    loader = BucketedLoader([make_pair(rng) for _ in range(120)], batch_size=8)
    model = Seq2Seq(ALPHABET + 3).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    stream = itertools.chain.from_iterable(loader.epoch() for _ in range(2))
    for step, batch in enumerate(stream, 1):
        src, tgt_in, tgt_out = (t.to(device) for t in batch)
        logits = model(src, tgt_in)
        loss = F.cross_entropy(logits.transpose(1, 2), tgt_out, ignore_index=PAD, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        if step % 8 == 0:
            print(f"step {step} width {src.size(1)} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
