"""Feature-token transformer for a two-target tabular problem."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

config = {
    "n_num": 5,
    "cat_sizes": [4, 6],
    "dim": 16,
    "heads": 4,
    "ffn": 24,
    "batch": 10,
    "lr": 5e-3,
    "aux_weight": 0.3,
}


class Tokens(nn.Module):

    def __init__(self, n_num, cat_sizes, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_num, dim))
        self.bias = nn.Parameter(torch.zeros(n_num, dim))
        self.tables = nn.ModuleList([nn.Embedding(s, dim) for s in cat_sizes])
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))

    def forward(self, num, cat):
        x = num.unsqueeze(-1) * self.weight + self.bias
        embs = [t(cat[:, i]).unsqueeze(1) for i, t in enumerate(self.tables)]
        cls = self.cls.expand(num.shape[0], -1, -1)
        return torch.cat([cls, x] + embs, dim=1)


class Attention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def split(self, t):
        return t.view(t.shape[0], t.shape[1], self.h, self.d).transpose(1, 2)

    def forward(self, x, missing):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        score = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.d)
        score = score.masked_fill(missing[:, None, None, :], -1e9)
        ctx = torch.matmul(torch.softmax(score, dim=-1), v)
        ctx = ctx.transpose(1, 2).reshape(x.shape)
        return self.o(ctx)


class Layer(nn.Module):

    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.n1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.n2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * ffn)
        self.down = nn.Linear(ffn, dim)

    def forward(self, x, missing):
        x = x + self.attn(self.n1(x), missing)
        a, g = self.up(self.n2(x)).chunk(2, dim=-1)
        return x + self.down(a * F.gelu(g))


class Net(nn.Module):

    def __init__(self, c):
        super().__init__()
        self.tokens = Tokens(c["n_num"], c["cat_sizes"], c["dim"])
        self.layer = Layer(c["dim"], c["heads"], c["ffn"])
        self.norm = nn.LayerNorm(c["dim"])
        self.reg = nn.Linear(c["dim"], 1)
        self.flag = nn.Linear(c["dim"], 1)

    def forward(self, num, cat, missing):
        z = self.norm(self.layer(self.tokens(num, cat), missing)[:, 0])
        return self.reg(z).squeeze(-1), self.flag(z).squeeze(-1)


def init_(model, seed):
    rs = np.random.RandomState(seed)
    with torch.no_grad():
        for p in sorted(model.parameters(), key=lambda t: (t.dim(), t.numel())):
            if p.dim() > 1:
                p.copy_(torch.from_numpy(rs.randn(*p.shape) * 0.2))
        for m in model.modules():
            if isinstance(m, nn.Linear):
                m.bias.zero_()


def make_batch(rs, c):
    num = rs.randn(c["batch"], c["n_num"]).astype("f4")
    cat = np.stack([rs.randint(0, s, c["batch"]) for s in c["cat_sizes"]], 1)
    miss = np.zeros((c["batch"], 1 + c["n_num"] + len(c["cat_sizes"])), bool)
    miss[:, 1:1 + c["n_num"]] = rs.rand(c["batch"], c["n_num"]) < 0.2
    y = num[:, 0] * 0.5 + 0.3 * (cat[:, 0] - 1.5)
    return [torch.from_numpy(a) for a in
            (num, cat, miss, y.astype("f4"), (y > 0).astype("f4"))]


def main():
    dev = torch_xla.device()
    model = Net(config)
    init_(model, 0)
    model.to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    rs = np.random.RandomState(1)
    torch_xla.sync()
    for step in range(5):
        num, cat, miss, y, f = [t.to(dev) for t in make_batch(rs, config)]
        opt.zero_grad()
        pred, logit = model(num, cat, miss)
        err = pred - y
        mse = (err * err).mean()
        bce = F.binary_cross_entropy_with_logits(logit, f)
        loss = mse + config["aux_weight"] * bce
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, f"{loss.item():.6f} {mse.item():.6f} {bce.item():.6f}")


if __name__ == "__main__":
    main()
