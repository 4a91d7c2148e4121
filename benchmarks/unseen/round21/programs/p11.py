"""Character language model over short log lines, batched by length."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB = 40
PAD = 0
BUCKETS = (8, 16, 24)
BATCH_SIZE = 8
ACCUMULATE = 2
STEPS = 42
EVAL_EVERY = 7


def make_lines(n, seed=11):
    rng = random.Random(seed)
    lines = []
    for _ in range(n):
        length = rng.randint(4, BUCKETS[-1])
        start = rng.randrange(1, VOCAB)
        lines.append([1 + (start + 3 * k + rng.randint(0, 1)) % (VOCAB - 1) for k in range(length)])
    return lines


def bucket_for(length):
    return next(b for b in BUCKETS if length <= b)


class BucketBatches:
    """Yields full batches; every line of a batch is padded to the size of its bucket."""

    def __init__(self, lines, batch_size, seed):
        self.by_bucket = {b: [] for b in BUCKETS}
        for line in lines:
            self.by_bucket[bucket_for(len(line))].append(line)
        self.batch_size = batch_size
        self.rng = random.Random(seed)

    def draw(self, bucket):
        lines = self.rng.sample(self.by_bucket[bucket], self.batch_size)
        batch = torch.full((self.batch_size, bucket), PAD, dtype=torch.long)
        for i, line in enumerate(lines):
            batch[i, : len(line)] = torch.tensor(line)
        return batch

    def __iter__(self):
        order = []
        while True:
            if not order:
                order = list(BUCKETS)
                self.rng.shuffle(order)
            yield self.draw(order.pop())


class CharTransformer(nn.Module):
    def __init__(self, dim=24, heads=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Embedding(BUCKETS[-1], dim)
        self.block = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, tokens):
        n = tokens.size(1)
        positions = torch.arange(n, device=tokens.device)
        mask = torch.ones(n, n, device=tokens.device).triu(1).bool()
        x = self.tok(tokens) + self.pos(positions)
        return self.out(self.block(x, src_mask=mask))


def lm_loss(model, tokens):
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.reshape(-1, VOCAB), tokens[:, 1:].reshape(-1), ignore_index=PAD)


@torch.no_grad()
def evaluate(model, batch):
    model.eval()
    loss = lm_loss(model, batch)
    torch_xla.sync()
    model.train()
    return loss.item()


def main():
    torch.manual_seed(1)
    device = torch_xla.device()
    model = CharTransformer().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    optimizer.zero_grad(set_to_none=False)

    train = iter(BucketBatches(make_lines(300), BATCH_SIZE, seed=5))
    held_out = BucketBatches(make_lines(120, seed=12), BATCH_SIZE, seed=6).draw(BUCKETS[-1]).to(device)
    torch_xla.sync()

    for step in range(1, STEPS + 1):
        for micro in range(ACCUMULATE):
            tokens = next(train).to(device)
            loss = lm_loss(model, tokens) / ACCUMULATE
            loss.backward()
            if micro == ACCUMULATE - 1:
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
            torch_xla.sync()
        if step % EVAL_EVERY == 0:
            print(f"step {step:3d}  held-out loss {evaluate(model, held_out):.4f}")


if __name__ == "__main__":
    main()
