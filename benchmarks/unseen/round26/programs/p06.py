"""Intent classification on short utterances. Sentences are grouped into three padded lengths."""
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BUCKETS = (8, 16, 24)
PAD, VOCAB, N_INTENTS = 0, 120, 5


def make_corpus(n, seed):
    rng = random.Random(seed)
    corpus = []
    for _ in range(n):
        intent = rng.randrange(N_INTENTS)
        length = rng.randint(3, BUCKETS[-1])
        toks = [rng.randint(30, VOCAB - 1) for _ in range(length)]
        for _ in range(1 + length // 6):
            toks[rng.randrange(length)] = 1 + intent * 5 + rng.randrange(5)
        corpus.append((toks, intent))
    return corpus


def bucket_of(n):
    return next(b for b in BUCKETS if n <= b)


def bucketed_batches(corpus, batch_size, rng=None):
    """Full batches only; every batch is padded to the boundary of its bucket."""
    groups = defaultdict(list)
    for toks, intent in corpus:
        groups[bucket_of(len(toks))].append((toks, intent))
    batches = []
    for width, rows in sorted(groups.items()):
        if rng is not None:
            rng.shuffle(rows)
        for i in range(0, len(rows) - batch_size + 1, batch_size):
            chunk = rows[i:i + batch_size]
            ids = torch.full((batch_size, width), PAD, dtype=torch.long)
            for r, (toks, _) in enumerate(chunk):
                ids[r, :len(toks)] = torch.tensor(toks)
            batches.append((ids, torch.tensor([y for _, y in chunk])))
    if rng is not None:
        rng.shuffle(batches)
    return batches


class AttentivePool(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.score = nn.Linear(dim, 1)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, N_INTENTS)

    def forward(self, ids):
        mask = ids != PAD
        h = self.emb(ids) * mask.unsqueeze(-1)
        h = self.norm(h + F.relu(self.conv(h.transpose(1, 2))).transpose(1, 2))
        w = self.score(h).squeeze(-1).masked_fill(~mask, -1e4).softmax(-1)
        return self.out((w.unsqueeze(-1) * h).sum(1))


def train_epoch(model, opt, sched, batches, device):
    model.train()
    total = torch.zeros((), device=device)
    for ids, y in batches:
        ids, y = ids.to(device), y.to(device)
        with torch_xla.step():
            opt.zero_grad()
            loss = F.cross_entropy(model(ids), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.detach()
        sched.step()
    return total.item() / len(batches)


@torch.no_grad()
def evaluate(model, batches, device):
    model.eval()
    correct = torch.zeros((), device=device)
    for ids, y in batches:
        with torch_xla.step():
            correct += (model(ids.to(device)).argmax(-1) == y.to(device)).sum()
    return correct.item() / sum(len(y) for _, y in batches)


def main(epochs=6, batch_size=16):
    torch.manual_seed(0)
    rng = random.Random(0)
    device = torch_xla.device()
    train, dev = make_corpus(360, 1), make_corpus(120, 2)
    dev_batches = bucketed_batches(dev, batch_size)
    model = AttentivePool().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min((s + 1) / 10.5, 0.999 ** s))
    torch_xla.sync()
    for epoch in range(epochs):
        loss = train_epoch(model, opt, sched, bucketed_batches(train, batch_size, rng), device)
        acc = evaluate(model, dev_batches, device)
        print(f"epoch {epoch}: loss {loss:.4f} dev acc {acc:.3f}", flush=True)


if __name__ == "__main__":
    main()
