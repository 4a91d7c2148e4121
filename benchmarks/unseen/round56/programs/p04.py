"""Transliteration with a GRU encoder-decoder and attention; sentences go to a few fixed widths."""
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

PAD, BOS, EOS = 0, 1, 2
ALPHABET = 24
VOCAB = ALPHABET + 3
WIDTHS = (6, 10, 14)


def transliterate(word):
    """Swap every pair, then rotate the alphabet by the position parity."""
    out = list(word)
    for i in range(0, len(out) - 1, 2):
        out[i], out[i + 1] = out[i + 1], out[i]
    return [3 + (c - 3 + 5 + i % 2) % ALPHABET for i, c in enumerate(out)]


def make_corpus(n, rng):
    lengths = rng.choices(range(3, WIDTHS[-1]), k=n)
    words = [[rng.randrange(3, VOCAB) for _ in range(k)] for k in lengths]
    return [(w, transliterate(w)) for w in words]


def fit(tokens, width):
    return tokens + [PAD] * (width - len(tokens))


class Batches:
    """Pairs grouped by the smallest width that holds them; every batch is full."""

    def __init__(self, corpus, batch_size, rng):
        self.groups = defaultdict(list)
        for src, tgt in corpus:
            width = next(w for w in WIDTHS if len(src) + 1 <= w)
            self.groups[width].append((src, tgt))
        self.batch_size, self.rng = batch_size, rng

    def epoch(self):
        plan = []
        for width, rows in self.groups.items():
            self.rng.shuffle(rows)
            for i in range(0, len(rows) - self.batch_size + 1, self.batch_size):
                plan.append((width, rows[i:i + self.batch_size]))
        self.rng.shuffle(plan)
        for width, rows in plan:
            src = torch.tensor([fit(s + [EOS], width) for s, _ in rows])
            tgt_in = torch.tensor([fit([BOS] + t, width) for _, t in rows])
            tgt_out = torch.tensor([fit(t + [EOS], width) for _, t in rows])
            yield src, tgt_in, tgt_out


class Cell(nn.Module):
    """GRU cell written out; runs the same on every backend."""

    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.x = nn.Linear(n_in, 3 * n_hidden)
        self.h = nn.Linear(n_hidden, 3 * n_hidden, bias=False)

    def forward(self, x, h):
        xr, xz, xn = self.x(x).chunk(3, -1)
        hr, hz, hn = self.h(h).chunk(3, -1)
        z = torch.sigmoid(xz + hz)
        return (1 - z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn) + z * h


class Seq2Seq(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.src = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.tgt = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.enc, self.dec = Cell(dim, dim), Cell(2 * dim, dim)
        self.out = nn.Linear(2 * dim, VOCAB)
        self.dim = dim

    def encode(self, src):
        keep = (src != PAD).float()
        h = torch.zeros(src.shape[0], self.dim, device=src.device)
        states = []
        for x, k in zip(self.src(src).unbind(1), keep.unbind(1)):
            h = torch.lerp(h, self.enc(x, h), k[:, None])
            states.append(h)
        return torch.stack(states, 1), h, keep

    def step(self, token, h, memory, keep):
        score = (memory @ h[:, :, None]).squeeze(2) + (keep - 1.0) * 1e4
        context = (score.softmax(1)[:, None] @ memory).squeeze(1)
        h = self.dec(torch.cat([self.tgt(token), context], -1), h)
        return self.out(torch.cat([h, context], -1)), h

    def forward(self, src, tgt_in):
        memory, h, keep = self.encode(src)
        logits = []
        for token in tgt_in.unbind(1):
            y, h = self.step(token, h, memory, keep)
            logits.append(y)
        return torch.stack(logits, 1)

    @torch.no_grad()
    def greedy(self, src):
        memory, h, keep = self.encode(src)
        token = torch.full_like(src[:, 0], BOS)
        out = []
        for _ in range(src.shape[1]):
            y, h = self.step(token, h, memory, keep)
            token = y.argmax(-1)
            out.append(token)
        return torch.stack(out, 1)


def main():
    rng = random.Random(14)
    torch.manual_seed(14)
    device = xm.xla_device()
    train = Batches(make_corpus(270, rng), 8, rng)
    probe = torch.tensor([fit(s + [EOS], WIDTHS[-1]) for s, _ in make_corpus(8, rng)]).to(device)
    model = Seq2Seq().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(2):
        losses = []
        for src, tgt_in, tgt_out in train.epoch():
            src, tgt_in, tgt_out = src.to(device), tgt_in.to(device), tgt_out.to(device)
            logits = model(src, tgt_in)
            loss = F.cross_entropy(logits.flatten(0, 1), tgt_out.flatten(), ignore_index=PAD)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            xm.mark_step()
            losses.append(loss.detach())
        mean = torch.stack(losses).mean().item()
        first = model.greedy(probe)[0].tolist()
        print(f"epoch {epoch}: {len(losses)} batches, loss {mean:.3f}, decodes {first[:6]}")


if __name__ == "__main__":
    main()
