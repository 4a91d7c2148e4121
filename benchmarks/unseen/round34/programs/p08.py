"""Part-of-speech style tagging with length buckets and gradient accumulation.

Sentences are grouped by length, a token budget sets the batch size per bucket.
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

PAD = 0
VOCAB, TAGS = 120, 6
BUCKETS = (8, 16, 24)
TOKEN_BUDGET = 192


def make_corpus(n, seed):
    """Tag depends on the word's class and on the class of the word before it."""
    rng = random.Random(seed)
    corpus = []
    for _ in range(n):
        length = min(BUCKETS[-1], max(3, int(rng.gauss(11, 5))))
        words = [rng.randrange(1, VOCAB) for _ in range(length)]
        tags = [(w % 3) + (3 if i and words[i - 1] % 2 else 0)
                for i, w in enumerate(words)]
        corpus.append((words, tags))
    return corpus


class BucketBatches:
    def __init__(self, corpus, seed):
        self.rng = random.Random(seed)
        self.by_bucket = {b: [] for b in BUCKETS}
        for words, tags in corpus:
            bucket = next(b for b in BUCKETS if len(words) <= b)
            self.by_bucket[bucket].append((words, tags))

    @staticmethod
    def collate(rows, width):
        words = torch.full((len(rows), width), PAD)
        tags = torch.full((len(rows), width), -100)
        for i, (w, t) in enumerate(rows):
            words[i, :len(w)] = torch.tensor(w)
            tags[i, :len(t)] = torch.tensor(t)
        return words, tags

    def __iter__(self):
        plan = []
        for width, rows in self.by_bucket.items():
            rows = rows[:]
            self.rng.shuffle(rows)
            size = TOKEN_BUDGET // width
            for i in range(0, len(rows) - size + 1, size):
                plan.append((width, rows[i:i + size]))
        self.rng.shuffle(plan)
        for width, rows in plan:
            yield self.collate(rows, width)


class Tagger(nn.Module):
    def __init__(self, dim=20):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.conv1 = nn.Conv1d(dim, dim, 3, padding=1)
        self.conv2 = nn.Conv1d(dim, dim, 3, padding=1)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, TAGS)

    def forward(self, words):
        keep = (words != PAD).unsqueeze(1).float()
        h = self.embed(words).transpose(1, 2)
        h = h + F.gelu(self.conv1(h * keep))
        h = h + F.gelu(self.conv2(h * keep))
        return self.out(self.norm(h.transpose(1, 2)))


def token_loss(logits, tags, normaliser):
    loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten(),
                           ignore_index=-100, reduction="sum")
    return loss / normaliser


def evaluate(model, batches, device):
    model.eval()
    right = torch.zeros((), device=device)
    count = torch.zeros((), device=device)
    with torch.no_grad():
        for words, tags in batches:
            with torch_xla.step():
                words, tags = words.to(device), tags.to(device)
                guess = model(words).argmax(-1)
                valid = tags != -100
                right += ((guess == tags) & valid).sum()
                count += valid.sum()
    model.train()
    return (right / count).item()


def main(epochs=4, accumulate=2, lr=5e-3):
    torch.manual_seed(4)
    device = torch_xla.device()
    train = BucketBatches(make_corpus(230, seed=1), seed=4)
    dev = BucketBatches(make_corpus(90, seed=2), seed=5)
    model = Tagger().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=lr)

    step = updates = 0
    for epoch in range(epochs):
        total = torch.zeros((), device=device)
        for words, tags in train:
            with torch_xla.step():
                words, tags = words.to(device), tags.to(device)
                loss = token_loss(model(words), tags, TOKEN_BUDGET * accumulate)
                loss.backward()
                total += loss.detach()
                if (step + 1) % accumulate == 0:
                    for group in opt.param_groups:
                        group["lr"] = lr * (1 - updates / 60)
                    opt.step()
                    opt.zero_grad()
                    updates += 1
            step += 1
        acc = evaluate(model, dev, device)
        print(f"epoch {epoch} micro-batches {step} updates {updates} "
              f"loss {total.item():.3f} dev acc {acc:.3f}")


if __name__ == "__main__":
    main()
