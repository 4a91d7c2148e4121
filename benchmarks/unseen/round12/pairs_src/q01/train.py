"""Intent classifier on chat utterances: small transformer encoder, AdamW, cosine schedule."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

VOCAB, PAD, CLASSES = 400, 0, 7


class Utterances(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            length = min(18, max(4, int(rng.gauss(10, 3))))
            label = rng.randrange(CLASSES)
            ids = [1] + [rng.randrange(3, VOCAB) for _ in range(length)] + [2]
            ids[1] = 3 + label
            self.rows.append((ids, label))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    ids = [torch.tensor(r[0]) for r in rows]
    tokens = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=PAD)
    return {"tokens": tokens, "labels": torch.tensor([r[1] for r in rows])}


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, key_mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(~key_mask[:, None, None, :], -1e9)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, dim * 2), nn.ReLU(), nn.Linear(dim * 2, dim))

    def forward(self, x, key_mask):
        x = x + self.attn(self.norm1(x), key_mask)
        return x + self.ff(self.norm2(x))


class IntentModel(nn.Module):
    def __init__(self, dim=32, heads=4, layers=2, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, CLASSES)

    def forward(self, tokens):
        mask = tokens != PAD
        pos = torch.arange(tokens.size(1), device=tokens.device)
        x = self.tok(tokens) + self.pos(pos)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x)[:, 0])


def main():
    torch.manual_seed(0)
    device = xm.xla_device()
    loader = DataLoader(Utterances(8 * 14, seed=1), batch_size=8, shuffle=True, collate_fn=collate, drop_last=True)
    model = IntentModel().to(device).train()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=20)
    for step, batch in enumerate(loader):
        batch = {k: v.to(device) for k, v in batch.items()}
        opt.zero_grad()
        logits = model(batch["tokens"])
        loss = F.cross_entropy(logits, batch["labels"])
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
