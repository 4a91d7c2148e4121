import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, PAD, MASK = 512, 0, 4
MAX_LEN = 32


class SelfAttention(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p)

    def split(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.heads, self.hd).transpose(1, 2)

    def forward(self, x, bias=None):
        b, t, d = x.shape
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.hd)
        if bias is not None:
            scores = scores + bias
        probs = self.drop(scores.softmax(-1))
        return self.out((probs @ v).transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.attn = SelfAttention(dim, heads, p)
        self.ln1 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)
        self.ln2 = nn.LayerNorm(dim)
        self.drop = nn.Dropout(p)

    def forward(self, x, bias):
        x = self.ln1(x + self.drop(self.attn(x, bias)))
        h = self.fc2(F.gelu(self.fc1(x)))
        return self.ln2(x + self.drop(h))


class Encoder(nn.Module):
    def __init__(self, dim=32, heads=4, layers=1, p=0.1):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Embedding(MAX_LEN, dim)
        self.ln = nn.LayerNorm(dim)
        self.drop = nn.Dropout(p)
        self.layers = nn.ModuleList(Layer(dim, heads, p) for _ in range(layers))
        self.head = nn.Linear(dim, VOCAB)
        self.register_buffer("position_ids", torch.arange(MAX_LEN), persistent=False)

    def forward(self, input_ids, attention_mask=None):
        x = self.tok(input_ids) + self.pos(self.position_ids)
        x = self.drop(self.ln(x))
        bias = None
        if attention_mask is not None:
            bias = (1.0 - attention_mask[:, None, None, :].float()) * -1e4
        for layer in self.layers:
            x = layer(x, bias)
        return self.head(x)


class Collator:
    """Cuts or pads to MAX_LEN and applies the masking of 15 % of the tokens."""

    def __init__(self, rng):
        self.rng = rng

    def __call__(self, docs):
        ids = np.full((len(docs), MAX_LEN), PAD, dtype=np.int64)
        for row, doc in zip(ids, docs):
            row[: len(doc)] = doc[:MAX_LEN]
        attn = (ids != PAD).astype(np.int64)
        labels = ids.copy()
        chosen = (self.rng.random(ids.shape) < 0.15) & (attn == 1)
        labels[~chosen] = -100
        ids[chosen] = MASK
        batch = {"input_ids": torch.from_numpy(ids), "labels": torch.from_numpy(labels)}
        if attn.min() == 0:
            batch["attention_mask"] = torch.from_numpy(attn)
        return batch


def corpus(n, lo, hi, seed):
    r = random.Random(seed)
    return [[r.randrange(5, VOCAB) for _ in range(r.randint(lo, hi))] for _ in range(n)]


def to_device(batch, device):
    return {k: v.to(device) for k, v in batch.items()}


def mlm_loss(model, batch):
    logits = model(batch["input_ids"], batch.get("attention_mask"))
    return F.cross_entropy(logits.view(-1, VOCAB), batch["labels"].view(-1), ignore_index=-100)


class Trainer:
    def __init__(self, model, device):
        self.model, self.device = model.to(device), device
        self.opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        self.collate = Collator(np.random.default_rng(0))

    def step(self, docs):
        batch = to_device(self.collate(docs), self.device)
        self.opt.zero_grad(set_to_none=True)
        loss = mlm_loss(self.model, batch)
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss

    @torch.no_grad()
    def evaluate(self, docs):
        self.model.eval()
        total = 0.0
        for i in range(0, len(docs), 4):
            total += mlm_loss(self.model, to_device(self.collate(docs[i:i + 4]), self.device)).item()
        return total / max(1, len(docs) // 4)


def main():
    torch.manual_seed(0)
    trainer = Trainer(Encoder(), torch_xla.device())
    train = corpus(16, 12, 40, seed=1) + corpus(12, 32, 60, seed=2)
    dev = corpus(8, 12, 40, seed=3)
    for i in range(0, len(train), 4):
        loss = trainer.step(train[i:i + 4])
        if (i // 4 + 1) % 4 == 0:
            print("step", i // 4, "train", loss.item(), "dev", trainer.evaluate(dev))


if __name__ == "__main__":
    main()
