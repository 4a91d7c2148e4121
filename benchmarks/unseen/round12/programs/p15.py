"""Toy translation (reverse and shift) with length buckets and token-budget updates."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

PAD, BOS, EOS, VOCAB = 0, 1, 2, 40
BUCKETS = (8, 16, 24)
ROWS = 8


class Attend(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.q = nn.Linear(d, d, bias=False)
        self.kv = nn.Linear(d, 2 * d, bias=False)
        self.o = nn.Linear(d, d, bias=False)

    def forward(self, x, memory=None, mask=None):
        h = self.norm(x)
        k, v = self.kv(h if memory is None else memory).chunk(2, dim=-1)
        score = self.q(h) @ k.transpose(1, 2) / h.shape[-1] ** 0.5
        if mask is not None:
            score = score + mask
        return x + self.o(score.softmax(-1) @ v)


class Seq2Seq(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.pos = nn.Embedding(max(BUCKETS) + 2, d)
        self.conv = nn.Conv1d(d, d, 3, padding=1)
        self.own, self.cross = Attend(d), Attend(d)
        self.out = nn.Linear(d, VOCAB)

    def embed(self, ids):
        return self.tok(ids) + self.pos.weight[: ids.shape[1]]

    def forward(self, src, tgt, causal):
        x = self.embed(src)
        memory = x + F.gelu(self.conv(x.transpose(1, 2)).transpose(1, 2))
        y = self.own(self.embed(tgt), mask=causal)
        return self.out(self.cross(y, memory))


class BucketedCorpus:
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.pools = {b: [] for b in BUCKETS}
        for _ in range(n):
            s = [rng.randrange(3, VOCAB) for _ in range(rng.randint(3, BUCKETS[-1] - 1))]
            width = next(b for b in BUCKETS if len(s) < b)
            self.pools[width].append(s)
        self.rng = rng

    def batch(self):
        width = self.rng.choice(BUCKETS)
        rows = self.rng.sample(self.pools[width], ROWS)
        src = torch.full((ROWS, width), PAD)
        tgt = torch.full((ROWS, width + 1), PAD)
        for i, s in enumerate(rows):
            out = [BOS] + [3 + (c + 5) % (VOCAB - 3) for c in reversed(s)] + [EOS]
            src[i, : len(s)] = torch.tensor(s)
            tgt[i, : len(out)] = torch.tensor(out[: width + 1])
        return src, tgt


def noam(step, d=32, warmup=8):
    return 0.3 * d ** -0.5 * min((step + 1) ** -0.5, (step + 1) * warmup ** -1.5)


class Trainer:
    def __init__(self, model, corpus, device, tokens_per_update=280):
        self.model, self.corpus, self.device = model, corpus, device
        self.budget = tokens_per_update
        self.opt = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98))
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, noam)
        self.masks = {b: torch.full((b, b), -1e9).triu(1).to(device) for b in BUCKETS}

    def accumulate(self):
        seen, total = 0, torch.zeros((), device=self.device)
        while seen < self.budget:
            src, tgt = self.corpus.batch()
            width = src.shape[1]
            src, tgt = src.to(self.device), tgt.to(self.device)
            logits = self.model(src, tgt[:, :-1], self.masks[width])
            loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(),
                                   ignore_index=PAD, reduction="sum")
            loss = loss / self.budget
            loss.backward()
            total += loss.detach()
            seen += ROWS * width
        return total, seen

    def fit(self, updates):
        tokens = 0
        for u in range(updates):
            loss, n = self.accumulate()
            tokens += n
            self.opt.step()
            self.sched.step()
            self.opt.zero_grad(set_to_none=False)
            xm.mark_step()
            if (u + 1) % 6 == 0:
                print(f"update {u + 1} tokens {tokens} loss {loss.item():.3f}")


if __name__ == "__main__":
    torch.manual_seed(15)
    device = xm.xla_device()
    net = Seq2Seq().to(device)
    trainer = Trainer(net, BucketedCorpus(600, seed=15), device)
    xm.mark_step()
    trainer.fit(18)
