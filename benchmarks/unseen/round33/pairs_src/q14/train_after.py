"""FT-Transformer for a churn table: 6 numeric and 3 categorical columns."""
import math

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUM = [f"num_{i}" for i in range(6)]
CARDS = {"plan": 4, "region": 7, "channel": 3}


class Tokenizer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.num_weight = nn.Parameter(torch.randn(len(NUM), d) / math.sqrt(d))
        self.num_bias = nn.Parameter(torch.zeros(len(NUM), d))
        self.cats = nn.ModuleList([nn.Embedding(c, d) for c in CARDS.values()])
        self.cls_token = nn.Parameter(torch.randn(1, 1, d) * 0.02)

    def forward(self, xn, xc):
        toks = [self.cls_token.expand(xn.shape[0], -1, -1)]
        toks.append(xn.unsqueeze(-1) * self.num_weight + self.num_bias)
        toks.append(torch.stack([e(xc[:, i]) for i, e in enumerate(self.cats)], dim=1))
        return torch.cat(toks, dim=1)


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        w = (q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)).softmax(-1)
        return self.out((w @ v).transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, d, heads, hidden):
        super().__init__()
        self.ln1 = nn.LayerNorm(d)
        self.attn = Attention(d, heads)
        self.ln2 = nn.LayerNorm(d)
        self.w_in = nn.Linear(d, 2 * hidden)
        self.w_out = nn.Linear(hidden, d)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        a, g = self.w_in(self.ln2(x)).chunk(2, dim=-1)
        return x + self.w_out(a * F.gelu(g))


class FTTransformer(nn.Module):
    def __init__(self, d=16, heads=2, hidden=20, depth=1):
        super().__init__()
        self.tokenizer = Tokenizer(d)
        self.layers = nn.ModuleList([Layer(d, heads, hidden) for _ in range(depth)])
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, 1)

    def forward(self, xn, xc):
        x = self.tokenizer(xn, xc)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x[:, 0])).squeeze(-1)


def param_groups(model, weight_decay):
    decay, plain = [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        if "norm" in name or "bias" in name or name.startswith("tokenizer"):
            plain.append(p)
        else:
            decay.append(p)
    return [
        {"params": decay, "weight_decay": weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]


def load(rows=64, seed=0):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame(rng.normal(size=(rows, len(NUM))), columns=NUM)
    for c, k in CARDS.items():
        df[c] = rng.integers(0, k, rows)
    df["churn"] = (df["num_0"] + 0.3 * df["plan"] > 0.5).astype("float32")
    return df


def fit(df, epochs=1, batch=16):
    torch.manual_seed(7)
    device = xm.xla_device()
    model = FTTransformer().to(device)
    opt = torch.optim.AdamW(param_groups(model, 1e-2), lr=3e-4)
    for epoch in range(epochs):
        for lo in range(0, len(df), batch):
            part = df.iloc[lo:lo + batch]
            xn = torch.tensor(part[NUM].to_numpy(np.float32), device=device)
            xc = torch.tensor(part[list(CARDS)].to_numpy(), device=device)
            y = torch.tensor(part["churn"].to_numpy(), device=device)
            loss = F.binary_cross_entropy_with_logits(model(xn, xc), y)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt, barrier=True)
            print(epoch, lo, loss.item())


if __name__ == "__main__":
    fit(load())
