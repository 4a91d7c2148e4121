"""Small causal language model, sequences batched by length."""
import math
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(vocab=200, dim=32, heads=4, layers=2, bounds=(16, 32, 48), batch_size=8, lr=3e-3, epochs=3)
PAD = 0


def make_corpus(n, seed):
    rnd = random.Random(seed)
    docs = []
    for _ in range(n):
        length = rnd.randint(6, 48)
        tok = rnd.randint(1, 50)
        doc = []
        for _ in range(length):
            doc.append(tok)
            tok = 1 + (tok * 7 + rnd.randint(0, 3)) % (CFG["vocab"] - 1)
        docs.append(doc)
    return docs


class LengthBatcher:
    def __init__(self, docs, bounds, batch_size, seed=0, shuffle=True):
        self.groups = defaultdict(list)
        for d in docs:
            bound = next(b for b in bounds if len(d) <= b)
            self.groups[bound].append(d)
        self.batch_size, self.shuffle = batch_size, shuffle
        self.rnd = random.Random(seed)

    def __iter__(self):
        batches = []
        for bound, docs in sorted(self.groups.items()):
            docs = list(docs)
            if self.shuffle:
                self.rnd.shuffle(docs)
            for i in range(0, len(docs) - self.batch_size + 1, self.batch_size):
                rows = [d + [PAD] * (bound - len(d)) for d in docs[i:i + self.batch_size]]
                batches.append(torch.tensor(rows))
        if self.shuffle:
            self.rnd.shuffle(batches)
        return iter(batches)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) / math.sqrt(d // self.heads)
        att = att.masked_fill(mask, -1e9).softmax(-1)
        x = x + self.out((att @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class LM(nn.Module):
    def __init__(self, vocab, dim, heads, layers, max_len):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("mask", torch.ones(max_len, max_len, dtype=torch.bool).triu(1))

    def forward(self, ids):
        t = ids.size(1)
        x = self.tok(ids) + self.pos.weight[:t]
        for blk in self.blocks:
            x = blk(x, self.mask[:t, :t])
        return self.norm(x) @ self.tok.weight.t()


def lm_loss(model, ids):
    logits = model(ids)[:, :-1]
    return F.cross_entropy(logits.reshape(-1, logits.size(-1)), ids[:, 1:].reshape(-1), ignore_index=PAD)


torch.manual_seed(0)
device = xm.xla_device()
train = LengthBatcher(make_corpus(110, 1), CFG["bounds"], CFG["batch_size"], seed=3)
valid = LengthBatcher(make_corpus(50, 2), CFG["bounds"], CFG["batch_size"], shuffle=False)
model = LM(CFG["vocab"], CFG["dim"], CFG["heads"], CFG["layers"], CFG["bounds"][-1]).to(device)
opt = torch.optim.AdamW(model.parameters(), lr=CFG["lr"])

for epoch in range(CFG["epochs"]):
    model.train()
    for i, ids in enumerate(train):
        ids = ids.to(device)
        opt.zero_grad()
        loss = lm_loss(model, ids)
        loss.backward()
        opt.step()
        xm.mark_step()
        if i % 5 == 0:
            print(f"epoch {epoch} it {i} len {ids.size(1)} loss {loss.item():.3f}")
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for ids in valid:
            val = lm_loss(model, ids.to(device))
            xm.mark_step()
            total, count = total + val.item(), count + 1
    print(f"epoch {epoch} valid ppl {math.exp(total / count):.2f}")
