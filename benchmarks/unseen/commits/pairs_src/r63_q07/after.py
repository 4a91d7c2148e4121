"""Sequential recommendation (SASRec style) on session logs."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ITEMS, MAXLEN, BATCH = 60, 10, 8


def param_groups(model, weight_decay, skip=("bias",)):
    decay, plain = [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        if any(name.endswith(s) for s in skip):
            plain.append(p)
        else:
            decay.append(p)
    return [
        {"params": decay, "weight_decay": weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]


class Layer(nn.Module):
    def __init__(self, dim, heads, drop):
        super().__init__()
        self.attn_norm = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, dropout=drop, batch_first=True)
        self.ffn_norm = nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Dropout(drop), nn.Linear(2 * dim, dim))

    def forward(self, x, causal, pad):
        h = self.attn_norm(x)
        h, _ = self.attn(h, h, h, attn_mask=causal, need_weights=False)
        x = (x + h) * pad
        return (x + self.ffn(self.ffn_norm(x))) * pad


class SASRec(nn.Module):
    def __init__(self, dim=16, heads=2, depth=1, drop=0.2):
        super().__init__()
        self.items = nn.Embedding(ITEMS + 1, dim, padding_idx=0)
        self.positions = nn.Embedding(MAXLEN, dim)
        self.drop = nn.Dropout(drop)
        self.layers = nn.ModuleList(Layer(dim, heads, drop) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("causal", torch.full((MAXLEN, MAXLEN), float("-inf")).triu(1), persistent=False)
        self.register_buffer("index", torch.arange(MAXLEN), persistent=False)

    def forward(self, seq):
        pad = (seq != 0).unsqueeze(-1)
        x = self.drop(self.items(seq) * self.items.embedding_dim ** 0.5 + self.positions(self.index)) * pad
        for layer in self.layers:
            x = layer(x, self.causal, pad)
        return self.norm(x)


def bpr_loss(states, items, pos, neg):
    mask = (pos != 0).float()
    up = (states * items(pos)).sum(-1)
    down = (states * items(neg)).sum(-1)
    loss = F.softplus(down - up)
    return (loss * mask).sum() / mask.sum()


def sessions(seed):
    rng = np.random.default_rng(seed)
    while True:
        seq = rng.integers(1, ITEMS + 1, (BATCH, MAXLEN + 1))
        length = rng.integers(2, MAXLEN + 1, BATCH)
        for row, n in zip(seq, length):
            row[:MAXLEN + 1 - n] = 0
        neg = rng.integers(1, ITEMS + 1, (BATCH, MAXLEN))
        yield torch.from_numpy(seq[:, :-1].copy()), torch.from_numpy(seq[:, 1:].copy()), torch.from_numpy(neg)


def main(steps=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = SASRec().to(device)
    opt = torch.optim.AdamW(param_groups(model, 0.05), lr=1e-3, betas=(0.9, 0.98))
    ema = torch.zeros((), device=device)
    torch_xla.sync()
    data = sessions(3)
    for _ in range(steps):
        seq, pos, neg = (t.to(device) for t in next(data))
        loss = bpr_loss(model(seq), model.items, pos, neg)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.lerp_(loss.detach(), 0.05)
        torch_xla.sync()
    print("loss", ema.item())


if __name__ == "__main__":
    main()
