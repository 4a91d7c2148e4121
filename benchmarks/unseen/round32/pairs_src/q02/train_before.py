"""Masked-residue pretraining of a small sparse protein encoder (bf16, gradient accumulation)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

AA = 25          # 20 residues, X, B, Z, pad, mask
PAD, MASK = 23, 24


class Router(nn.Module):
    def __init__(self, dim, experts, k):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.k = k
        self.experts = experts

    def forward(self, x):
        with torch.autocast("xla", enabled=False):
            probs = self.gate(x.float()).softmax(-1)
        top, idx = probs.topk(self.k, dim=-1)
        onehot = F.one_hot(idx, self.experts).to(top.dtype)
        combine = (onehot * top.unsqueeze(-1)).sum(-2)
        load = onehot[..., 0, :].mean((0, 1))
        balance = self.experts * (load * probs.mean((0, 1))).sum()
        return combine, balance


class SparseFFN(nn.Module):
    def __init__(self, dim, experts=3, k=2):
        super().__init__()
        self.router = Router(dim, experts, k)
        self.up = nn.Parameter(torch.randn(experts, dim, 2 * dim) * dim ** -0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * dim, dim) * (2 * dim) ** -0.5)

    def forward(self, x):
        combine, balance = self.router(x)
        h = F.silu(torch.einsum("bld,edf->belf", x, self.up))
        y = torch.einsum("belf,efd->beld", h, self.down)
        return torch.einsum("beld,ble->bld", y, combine.to(y.dtype)), balance


class Block(nn.Module):
    """Gated local mixing along the chain, then the sparse feed-forward."""

    def __init__(self, dim, width=5):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mix = nn.Conv1d(dim, 2 * dim, width, padding=width // 2, bias=False)
        self.ffn = SparseFFN(dim)

    def forward(self, x, keep):
        h = x * keep.unsqueeze(-1)
        value, gate = self.mix(h.transpose(1, 2)).transpose(1, 2).chunk(2, -1)
        x = x + value * torch.sigmoid(gate)
        y, balance = self.ffn(self.norm(x))
        return x + y, balance


class Encoder(nn.Module):
    def __init__(self, dim=16, layers=1):
        super().__init__()
        self.tok = nn.Embedding(AA, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(layers))

    def forward(self, ids):
        keep = ids != PAD
        x = self.tok(ids)
        total = 0.0
        for blk in self.blocks:
            x, bal = blk(x, keep)
            total = total + bal
        return F.linear(x, self.tok.weight), total


def corrupt(ids, rng):
    pick = (rng.random(ids.shape) < 0.15) & (ids != PAD)
    pick[:, 0] = True
    return np.where(pick, MASK, ids), np.where(pick, ids, -100)


def micro_batches(n, batch, length, seed):
    rng = np.random.default_rng(seed)
    while True:
        out = []
        for _ in range(n):
            ids = rng.integers(0, 20, (batch, length))
            for row, ln in zip(ids, rng.integers(length // 2, length + 1, batch)):
                row[ln:] = PAD
            out.append(tuple(torch.from_numpy(a) for a in corrupt(ids, rng)))
        yield out


def train(steps=3, accum=2, max_norm=1.0):
    torch.manual_seed(7)
    dev = torch_xla.device()
    model = Encoder().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    xm.mark_step()

    for step, micro in zip(range(steps), micro_batches(accum, 4, 24, seed=3)):
        opt.zero_grad()
        seen = torch.zeros((), device=dev)
        nll = torch.zeros((), device=dev)
        for ids, target in micro:
            ids, target = ids.to(dev), target.to(dev)
            with torch.autocast("xla", dtype=torch.bfloat16):
                logits, balance = model(ids)
            picked = (target != -100).sum()
            ce = F.cross_entropy(logits.float().flatten(0, 1), target.flatten(), ignore_index=-100, reduction="sum")
            (ce + 0.01 * balance * picked).backward()
            seen += picked
            nll += ce.detach()
        for p in model.parameters():
            p.grad.div_(seen)
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        opt.step()
        nll = nll / seen
        xm.mark_step()
        print(step, nll.item(), norm.item())


if __name__ == "__main__":
    train()
