"""Small causal language model on length-bucketed documents, with evaluation."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, PAD = 60, 0
BUCKETS = (16, 32, 48)
BATCH = 6


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.heads = heads

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-1, -2)) / (d // self.heads) ** 0.5
        a = a.masked_fill(~mask, -1e4).softmax(-1)
        x = x + self.out((a @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class CausalLM(nn.Module):
    def __init__(self, d=32, layers=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d)
        self.pos = nn.Embedding(max(BUCKETS), d)
        self.blocks = nn.ModuleList([Block(d, 2) for _ in range(layers)])
        self.norm = nn.LayerNorm(d)

    def forward(self, ids):
        t = ids.shape[1]
        x = self.tok(ids) + self.pos.weight[:t]
        causal = torch.ones(t, t, dtype=torch.bool, device=ids.device).tril()
        mask = causal[None, None] & (ids != PAD)[:, None, None, :]
        for blk in self.blocks:
            x = blk(x, mask)
        return self.norm(x) @ self.tok.weight.t()


def bucket_of(n):
    for b in BUCKETS:
        if n <= b:
            return b
    return BUCKETS[-1]


class BucketSampler:
    """Groups documents by padded length; every batch is full."""

    def __init__(self, docs, seed):
        self.rng = random.Random(seed)
        self.by_bucket = {b: [] for b in BUCKETS}
        for doc in docs:
            self.by_bucket[bucket_of(len(doc))].append(doc)

    def __iter__(self):
        batches = []
        for b, docs in self.by_bucket.items():
            docs = docs[:]
            self.rng.shuffle(docs)
            for i in range(0, len(docs) - BATCH + 1, BATCH):
                batches.append((b, docs[i:i + BATCH]))
        self.rng.shuffle(batches)
        for b, docs in batches:
            yield self.collate(b, docs)

    @staticmethod
    def collate(width, docs):
        out = torch.full((len(docs), width), PAD, dtype=torch.long)
        for i, doc in enumerate(docs):
            out[i, :min(len(doc), width)] = torch.tensor(doc[:width])
        return out


def make_docs(n, seed):
    rng = random.Random(seed)
    docs = []
    for _ in range(n):
        length = rng.randint(6, max(BUCKETS))
        start = rng.randrange(1, VOCAB)
        docs.append([1 + (start + 3 * i) % (VOCAB - 1) for i in range(length)])
    return docs


def token_loss(model, ids):
    logits = model(ids)[:, :-1]
    return F.cross_entropy(logits.reshape(-1, VOCAB), ids[:, 1:].reshape(-1), ignore_index=PAD)


class Trainer:
    def __init__(self, model, device):
        self.model, self.device = model.to(device), device
        self.opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda s: min(1.0, (s + 1) / 8) * 0.97 ** s)
        self.step = 0

    def fit(self, train, valid, max_steps):
        while self.step < max_steps:
            for ids in train:
                loss = self.train_step(ids.to(self.device))
                self.step += 1
                if self.step % 20 == 0:
                    print(self.step, "train", round(loss.item(), 3), "valid", round(self.evaluate(valid), 3))
                if self.step >= max_steps:
                    break

    def train_step(self, ids):
        self.model.train()
        self.opt.zero_grad()
        loss = token_loss(self.model, ids)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.sched.step()
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, valid):
        self.model.eval()
        losses = []
        for ids in valid:
            value = token_loss(self.model, ids.to(self.device))
            torch_xla.sync()
            losses.append(value.item())
        return sum(losses) / len(losses)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    trainer = Trainer(CausalLM(), device)
    trainer.fit(BucketSampler(make_docs(150, 1), 3), BucketSampler(make_docs(40, 2), 4), 60)


if __name__ == "__main__":
    main()
