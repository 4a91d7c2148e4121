"""Set-attention tagger for detector hits: particle type per jet.

usage: python after.py OUT.hlo
"""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, HITS, FEATS, DIM, HEADS, CLASSES = 4, 9, 6, 12, 3, 5
DUMP_STEP = 2


class SetAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.val = nn.Linear(dim, dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def project(self, x):
        # one matmul for q, k and v; checkpoints keep the three weights apart
        b, n, d = x.shape
        w = torch.cat([self.query.weight, self.key.weight, self.val.weight])
        qkv = F.linear(x, w).view(b, n, 3, self.heads, d // self.heads)
        return qkv.permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, x, pair_bias, valid):
        q, k, v = self.project(x)
        q = q * q.size(-1) ** -0.5
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        scores = torch.where(valid[:, None, None, :], scores + pair_bias[:, None], -1e9)
        attn = F.softmax(scores, dim=-1)
        out = torch.einsum("bhqk,bhkd->bqhd", attn, v).flatten(2)
        return self.proj(out)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        self.attn = SetAttention(DIM, HEADS)
        self.norm2 = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)

    def forward(self, x, pair_bias, valid):
        x = x + self.attn(self.norm1(x), pair_bias, valid)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def pair_distance(coords):
    """-dR^2 of each pair of hits, phi wrapped."""
    eta, phi = coords[..., 0], coords[..., 1]
    deta = eta.unsqueeze(2) - eta.unsqueeze(1)
    dphi = phi.unsqueeze(2) - phi.unsqueeze(1)
    return -(deta * deta + 2.0 * (1.0 - torch.cos(dphi)))


class JetTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(FEATS, DIM)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.cls = nn.Linear(DIM, CLASSES)

    def forward(self, hits, coords, valid):
        bias = pair_distance(coords)
        h = self.embed(hits)
        for block in self.blocks:
            h = block(h, bias, valid)
        m = valid.to(h.dtype)
        pooled = torch.einsum("bnd,bn->bd", h, m / m.sum(1, keepdim=True))
        return self.cls(pooled)


def loss_fn(logits, label, weight):
    logp = F.log_softmax(logits, dim=-1)
    nll = -logp.gather(1, label[:, None])[:, 0]
    return torch.dot(nll, weight / weight.sum())


def live(model, opt, extra):
    out = list(extra)
    for p in model.parameters():
        out += [p, p.grad, opt.state[p]["momentum_buffer"]]
    return out


def batch(gen, device):
    hits = torch.randn(BATCH, HITS, FEATS, generator=gen)
    coords = torch.rand(BATCH, HITS, 2, generator=gen) * 6 - 3
    count = torch.randint(3, HITS + 1, (BATCH, 1), generator=gen)
    valid = torch.arange(HITS).unsqueeze(0) < count
    label = torch.randint(0, CLASSES, (BATCH,), generator=gen)
    weight = torch.rand(BATCH, generator=gen) + 0.5
    return [t.to(device) for t in (hits, coords, valid, label, weight)]


def main(path):
    device = torch_xla.device()
    torch.manual_seed(31)
    model = JetTagger().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    gen = torch.Generator().manual_seed(6)
    torch_xla.sync()
    for step in range(6):
        hits, coords, valid, label, weight = batch(gen, device)
        opt.zero_grad()
        logits = model(hits, coords, valid)
        loss = loss_fn(logits, label, weight)
        loss.backward()
        opt.step()
        if step == DUMP_STEP:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss, logits])))
        torch_xla.sync()
        print(step, loss.item(), logits.abs().sum().item())
    print("params", sum(p.double().abs().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main(sys.argv[1])
