"""FT-Transformer on a loan-default table (numeric + categorical columns), torch_xla."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_NUM = 7
CARDS = [5, 12, 3]
D, HEADS, FF = 16, 4, 32


class Tokenizer(nn.Module):
    """CLS, numeric and categorical tokens; one table for all categorical columns."""

    def __init__(self):
        super().__init__()
        self.cls = nn.Parameter(torch.zeros(1, 1, D))
        self.weight = nn.Parameter(torch.randn(N_NUM, D) * 0.2)
        self.bias = nn.Parameter(torch.zeros(N_NUM, D))
        self.table = nn.Embedding(sum(CARDS), D)
        self.register_buffer("offsets", torch.tensor([0] + CARDS[:-1]).cumsum(0), persistent=False)

    def forward(self, xn, xc):
        num = torch.einsum("bn,nd->bnd", xn, self.weight) + self.bias
        cat = self.table(xc + self.offsets)
        return torch.cat([self.cls.expand(len(xn), 1, D), num, cat], dim=1)


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.scale = (d // heads) ** -0.5
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, -1).unbind(2)
        att = torch.einsum("bihc,bjhc->bhij", q * self.scale, k).softmax(-1)
        y = torch.einsum("bhij,bjhc->bihc", att, v)
        return self.out(y.reshape(b, n, d))


class FTTransformer(nn.Module):
    def __init__(self, depth=1, classes=3):
        super().__init__()
        self.tok = Tokenizer()
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.ModuleDict({
                "n1": nn.LayerNorm(D), "att": Attention(D, HEADS),
                "n2": nn.LayerNorm(D), "up": nn.Linear(D, 2 * FF), "down": nn.Linear(FF, D),
            }))
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear(D, classes)

    def forward(self, xn, xc):
        x = self.tok(xn, xc)
        for l in self.layers:
            x = l["att"](l["n1"](x)) + x
            h = l["up"](l["n2"](x))
            x = l["down"](F.gelu(h[..., FF:]) * h[..., :FF]) + x
        return self.head(self.norm(x.select(1, 0)))


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


def smoothed_nll(logits, y, eps=0.1):
    logp = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    k = logits.shape[-1]
    target = F.one_hot(y, k).to(logp.dtype) * (1 - eps) + eps / k
    return -(target * logp).sum(-1).mean()


def clip_(params, max_norm):
    grads = [p.grad for p in params if p.grad is not None]
    total = torch.stack([g.pow(2).sum() for g in grads]).sum().sqrt()
    coef = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for g in grads:
        g.mul_(coef)


def build(device):
    torch.manual_seed(0)
    return FTTransformer().to(device)


def step_fn(model, opt, xn, xc, y):
    loss = smoothed_nll(model(xn, xc), y)
    opt.zero_grad()
    loss.backward()
    clip_(list(model.parameters()), 1.0)
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
