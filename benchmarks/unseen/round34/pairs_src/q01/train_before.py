"""FT-Transformer on a loan-default table (numeric + categorical columns), torch_xla."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_NUM = 7
CARDS = [5, 12, 3]
D, HEADS, FF = 16, 4, 32


class NumericTokenizer(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n, d) * 0.2)
        self.bias = nn.Parameter(torch.zeros(n, d))

    def forward(self, x):
        return x.unsqueeze(-1) * self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.dh = d // heads
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.out = nn.Linear(d, d)

    def _split(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.heads, self.dh).permute(0, 2, 1, 3)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self._split(self.q(x)), self._split(self.k(x)), self._split(self.v(x))
        att = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.dh)
        att = F.softmax(att, dim=-1)
        y = torch.matmul(att, v).permute(0, 2, 1, 3).reshape(b, n, d)
        return self.out(y)


class GEGLU(nn.Module):
    def __init__(self, d, ff):
        super().__init__()
        self.up = nn.Linear(d, 2 * ff)
        self.down = nn.Linear(ff, d)

    def forward(self, x):
        a, g = self.up(x).chunk(2, dim=-1)
        return self.down(a * F.gelu(g))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1 = nn.LayerNorm(D)
        self.att = Attention(D, HEADS)
        self.n2 = nn.LayerNorm(D)
        self.ff = GEGLU(D, FF)

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.ff(self.n2(x))


class FTTransformer(nn.Module):
    def __init__(self, depth=1, classes=3):
        super().__init__()
        self.num = NumericTokenizer(N_NUM, D)
        self.cat = nn.ModuleList([nn.Embedding(c, D) for c in CARDS])
        self.cls = nn.Parameter(torch.zeros(1, 1, D))
        self.blocks = nn.ModuleList([Block() for _ in range(depth)])
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear(D, classes)

    def forward(self, xn, xc):
        toks = [self.cls.expand(xn.shape[0], -1, -1), self.num(xn)]
        for i, emb in enumerate(self.cat):
            toks.append(emb(xc[:, i]).unsqueeze(1))
        x = torch.cat(toks, dim=1)
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x[:, 0]))


def table(n, seed=0):
    r = np.random.RandomState(seed)
    xn = r.randn(n, N_NUM).astype(np.float32)
    xc = np.stack([r.randint(0, c, n) for c in CARDS], 1)
    y = ((xn[:, 0] + 0.3 * xc[:, 1] - xc[:, 2]) > 1).astype(np.int64) + (xn[:, 3] > 0.8)
    return torch.from_numpy(xn), torch.from_numpy(xc), torch.from_numpy(y.astype(np.int64))


def param_groups(model, wd):
    decay, rest = [], []
    for n, p in model.named_parameters():
        (decay if p.ndim == 2 and "bias" not in n else rest).append(p)
    return [{"params": decay, "weight_decay": wd}, {"params": rest, "weight_decay": 0.0}]


def build(device):
    torch.manual_seed(0)
    return FTTransformer().to(device)


def step_fn(model, opt, xn, xc, y):
    opt.zero_grad()
    logits = model(xn, xc)
    loss = F.cross_entropy(logits, y, label_smoothing=0.1)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=4)
    ap.add_argument("--bs", type=int, default=24)
    a = ap.parse_args()
    dev = torch_xla.device()
    model = build(dev)
    opt = torch.optim.SGD(param_groups(model, 1e-4), lr=0.05, momentum=0.9)
    xn, xc, y = table(a.bs * a.steps)
    for s in range(a.steps):
        sl = slice(s * a.bs, (s + 1) * a.bs)
        loss = step_fn(model, opt, xn[sl].to(dev), xc[sl].to(dev), y[sl].to(dev))
        xm.mark_step()
        print(s, loss.item())


if __name__ == "__main__":
    main()
