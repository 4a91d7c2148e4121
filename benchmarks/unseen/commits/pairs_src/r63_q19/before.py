"""Small mixture-of-experts language model, dense dispatch."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class CausalAttention(nn.Module):
    def __init__(self, dim, heads, context):
        super().__init__()
        self.heads = heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        mask = torch.full((context, context), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.wqkv(x).split(d, -1)
        q, k, v = (a.view(b, t, self.heads, -1).transpose(1, 2) for a in (q, k, v))
        s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + self.mask[:t, :t]
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Router(nn.Module):
    def __init__(self, dim, n_experts, top_k):
        super().__init__()
        self.gate = nn.Linear(dim, n_experts, bias=False)
        self.n_experts = n_experts
        self.top_k = top_k

    def forward(self, x):
        logits = self.gate(x)
        probs = logits.softmax(-1)
        weight, expert = torch.topk(probs, self.top_k, dim=-1)
        chosen = F.one_hot(expert, self.n_experts).to(x.dtype)
        combine = (weight.unsqueeze(-1) * chosen).sum(1)
        load = chosen.sum(1).mean(0)
        aux = self.n_experts * (load * probs.mean(0)).sum() / self.top_k
        return combine, aux


class MoE(nn.Module):
    def __init__(self, dim, hidden, n_experts, top_k):
        super().__init__()
        self.router = Router(dim, n_experts, top_k)
        self.w_in = nn.Parameter(torch.randn(n_experts, dim, hidden) / math.sqrt(dim))
        self.w_out = nn.Parameter(torch.randn(n_experts, hidden, dim) / math.sqrt(hidden))

    def forward(self, x):
        b, t, d = x.shape
        flat = x.reshape(b * t, d)
        combine, aux = self.router(flat)
        h = F.silu(torch.einsum("nd,edh->enh", flat, self.w_in))
        y = torch.einsum("enh,ehd->end", h, self.w_out)
        return torch.einsum("ne,end->nd", combine, y).view(b, t, d), aux


class MoELM(nn.Module):
    def __init__(self, vocab=64, dim=16, heads=2, hidden=24, n_experts=4, top_k=2, context=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.zeros(context, dim))
        self.n1, self.attn = RMSNorm(dim), CausalAttention(dim, heads, context)
        self.n2, self.moe = RMSNorm(dim), MoE(dim, hidden, n_experts, top_k)
        self.norm = RMSNorm(dim)

    def forward(self, ids):
        x = self.emb(ids) + self.pos[:ids.size(1)]
        x = x + self.attn(self.n1(x))
        y, aux = self.moe(self.n2(x))
        return F.linear(self.norm(x + y), self.emb.weight), aux


def main(steps=4, aux_coef=0.01):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = MoELM().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    torch_xla.sync()
    g = torch.Generator().manual_seed(1)
    for _ in range(steps):
        ids = torch.randint(0, 64, (3, 13), generator=g).to(device)
        logits, aux = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        (loss + aux_coef * aux).backward()
        opt.step()
        torch_xla.sync()
    print(loss.item(), aux.item())


if __name__ == "__main__":
    main()
