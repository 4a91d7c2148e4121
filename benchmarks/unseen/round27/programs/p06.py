"""Intent classifier on short utterances.

Utterances are padded to one of three lengths, a batch never mixes lengths;
two micro batches are accumulated for every update.
"""
import random

import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm

config = {
    "vocab": 150,
    "classes": 7,
    "dim": 24,
    "heads": 2,
    "buckets": (8, 16, 24),
    "micro_batch": 8,
    "accum": 2,
    "epochs": 6,
    "updates_per_epoch": 20,
    "lr": 1e-3,
    "wd": 0.01,
}
PAD = 0


class Utterances:
    def __init__(self, n, cfg, seed):
        rng = random.Random(seed)
        self.cfg = cfg
        self.bins = {b: [] for b in cfg["buckets"]}
        for _ in range(n):
            label = rng.randrange(cfg["classes"])
            length = rng.randint(3, cfg["buckets"][-1])
            words = [rng.randrange(1, cfg["vocab"]) for _ in range(length)]
            words[rng.randrange(length)] = 1 + label
            self.bins[self.bucket_of(length)].append((words, label))

    def bucket_of(self, length):
        return next(b for b in self.cfg["buckets"] if length <= b)

    def collate(self, rows, width):
        ids = torch.full((len(rows), width), PAD, dtype=torch.long)
        for r, (words, _) in enumerate(rows):
            ids[r, : len(words)] = torch.tensor(words)
        return ids, torch.tensor([label for _, label in rows])

    def batches(self, size, rng=None):
        plan = []
        for width, rows in self.bins.items():
            rows = list(rows)
            if rng is not None:
                rng.shuffle(rows)
            plan += [(width, rows[k:k + size]) for k in range(0, len(rows) - size + 1, size)]
        if rng is not None:
            rng.shuffle(plan)
        for width, rows in plan:
            yield self.collate(rows, width)

    def forever(self, size, rng):
        while True:
            yield from self.batches(size, rng)


class IntentModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg["dim"]
        self.tok = nn.Embedding(cfg["vocab"], d, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(cfg["buckets"][-1], d) * 0.02)
        self.attn = nn.MultiheadAttention(d, cfg["heads"], batch_first=True)
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.out = nn.Linear(d, cfg["classes"])

    def forward(self, ids):
        pad = ids == PAD
        h = self.tok(ids) + self.pos[: ids.shape[1]]
        a, _ = self.attn(h, h, h, key_padding_mask=pad, need_weights=False)
        h = self.ln1(h + a)
        h = self.ln2(h + self.ff(h))
        keep = (~pad).unsqueeze(-1).to(h.dtype)
        return self.out((h * keep).sum(1) / keep.sum(1))


def evaluate(model, data, size, device):
    model.eval()
    right, seen = torch.zeros((), dtype=torch.long, device=device), 0
    with torch.no_grad():
        for ids, y in data.batches(size):
            right += (model(ids.to(device)).argmax(-1) == y.to(device)).sum()
            seen += len(y)
            torch_xla.sync()
    model.train()
    return right.item() / seen


def main():
    torch.manual_seed(7)
    rng = random.Random(7)
    device = torch_xla.device()
    train, dev = Utterances(1200, config, 1), Utterances(160, config, 2)
    model = IntentModel(config).to(device).train()
    opt = torch.optim.AdamW(model.parameters(), lr=config["lr"], weight_decay=config["wd"])
    ce = nn.CrossEntropyLoss()
    stream = train.forever(config["micro_batch"], rng)
    for epoch in range(config["epochs"]):
        for _ in range(config["updates_per_epoch"]):
            for micro in range(config["accum"]):
                ids, y = next(stream)
                loss = ce(model(ids.to(device)), y.to(device)) / config["accum"]
                loss.backward()
                torch_xla.sync()
            opt.step()
            opt.zero_grad(set_to_none=False)
            torch_xla.sync()
        acc = evaluate(model, dev, config["micro_batch"], device)
        print(f"epoch {epoch}: train {loss.item() * config['accum']:.3f} dev acc {acc:.3f}")


if __name__ == "__main__":
    main()
