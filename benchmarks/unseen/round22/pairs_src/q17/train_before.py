import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclasses.dataclass
class MoEConfig:
    vocab: int = 40
    dim: int = 16
    heads: int = 2
    experts: int = 4
    top_k: int = 2
    ffn: int = 24
    layers: int = 1
    seq: int = 10
    aux_coef: float = 0.02


class SparseMLP(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.router = nn.Linear(cfg.dim, cfg.experts, bias=False)
        self.w_in = nn.Parameter(torch.randn(cfg.experts, cfg.dim, cfg.ffn) * 0.1)
        self.w_out = nn.Parameter(torch.randn(cfg.experts, cfg.ffn, cfg.dim) * 0.1)

    def route(self, x):
        logits = self.router(x)
        probs = F.softmax(logits, dim=-1)
        gate, chosen = torch.topk(probs, self.cfg.top_k, dim=-1)
        return probs, gate, chosen

    def forward(self, x):
        b, t, d = x.shape
        flat = x.reshape(b * t, d)
        probs, gate, chosen = self.route(flat)
        onehot = F.one_hot(chosen, self.cfg.experts).to(flat.dtype)
        combine = (onehot * gate.unsqueeze(-1)).sum(1)
        hidden = F.gelu(torch.einsum("nd,edf->enf", flat, self.w_in))
        out = torch.einsum("enf,efd->end", hidden, self.w_out)
        y = torch.einsum("ne,end->nd", combine, out)
        load = onehot.sum(1).mean(0)
        aux = self.cfg.experts * (load * probs.mean(0)).sum()
        return y.view(b, t, d), aux


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1 = nn.LayerNorm(cfg.dim)
        self.ln2 = nn.LayerNorm(cfg.dim)
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.proj = nn.Linear(cfg.dim, cfg.dim)
        self.moe = SparseMLP(cfg)
        self.heads = cfg.heads

    def attend(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) / (d // self.heads) ** 0.5
        att = att.masked_fill(mask, float("-inf")).softmax(-1)
        return self.proj((att @ v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x, mask):
        x = x + self.attend(self.ln1(x), mask)
        y, aux = self.moe(self.ln2(x))
        return x + y, aux


class LM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Parameter(torch.zeros(cfg.seq, cfg.dim))
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.dim)
        mask = torch.ones(cfg.seq, cfg.seq, dtype=torch.bool).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        aux = 0.0
        for blk in self.blocks:
            x, a = blk(x, self.mask)
            aux = aux + a
        return self.norm(x) @ self.tok.weight.t(), aux


def train(cfg, steps=3):
    torch.manual_seed(8)
    dev = torch_xla.device()
    model = LM(cfg).to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    torch_xla.sync()
    for i in range(steps):
        with torch_xla.step():
            chunk = torch.randint(0, cfg.vocab, (4, cfg.seq + 1)).to(dev)
            logits, aux = model(chunk[:, :-1])
            ce = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
            loss = ce + cfg.aux_coef * aux
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(i, f"{ce.item():.5f} {aux.item():.5f}")


if __name__ == "__main__":
    train(MoEConfig())
