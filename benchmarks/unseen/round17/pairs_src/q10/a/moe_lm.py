"""Mixture-of-experts language model, bf16 weights, top-2 routing with dense dispatch."""
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn

VOCAB, DIM, FFN, EXPERTS, TOPK, HEADS = 96, 32, 48, 4, 2, 4


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return y.to(x.dtype) * self.weight


class CausalAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wqkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.wo = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = self.wqkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) * (DIM // HEADS) ** -0.5
        att = att.float().masked_fill(mask, float("-inf")).softmax(-1).to(x.dtype)
        return self.wo((att @ v).transpose(1, 2).reshape(b, t, DIM))


class SparseFFN(nn.Module):
    """Every expert sees every token; the gate zeroes what was not routed."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(DIM, EXPERTS, bias=False)
        self.w_in = nn.Parameter(torch.randn(EXPERTS, DIM, FFN) * DIM**-0.5)
        self.w_out = nn.Parameter(torch.randn(EXPERTS, FFN, DIM) * FFN**-0.5)

    def forward(self, x):
        flat = x.reshape(-1, DIM)
        scores = self.router(flat)
        probs = torch.softmax(scores.float(), dim=-1)
        top = probs.topk(TOPK, dim=-1)
        gate = torch.zeros_like(probs).scatter(1, top.indices, top.values)
        gate = gate / gate.sum(-1, keepdim=True)
        load = (gate > 0).float().mean(0)
        balance = EXPERTS * (load * probs.mean(0)).sum()
        h = F.silu(torch.einsum("nd,edf->enf", flat, self.w_in))
        y = torch.einsum("enf,efd->end", h, self.w_out)
        out = torch.einsum("end,ne->nd", y, gate.to(y.dtype))
        return out.view_as(x), balance


class Decoder(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.attn = nn.ModuleList(CausalAttention() for _ in range(depth))
        self.ffn = nn.ModuleList(SparseFFN() for _ in range(depth))
        self.n1 = nn.ModuleList(RMSNorm(DIM) for _ in range(depth))
        self.n2 = nn.ModuleList(RMSNorm(DIM) for _ in range(depth))
        self.n_out = RMSNorm(DIM)

    def forward(self, ids):
        t = ids.shape[1]
        mask = torch.ones(t, t, dtype=torch.bool, device=ids.device).triu(1)
        x, aux = self.embed(ids), 0.0
        for attn, ffn, n1, n2 in zip(self.attn, self.ffn, self.n1, self.n2):
            x = x + attn(n1(x), mask)
            y, balance = ffn(n2(x))
            x, aux = x + y, aux + balance
        return (self.n_out(x) @ self.embed.weight.t()).float(), aux


def token_stream(batch, length, seed=2):
    g = torch.Generator().manual_seed(seed)
    while True:
        start = torch.randint(0, VOCAB, (batch, 1), generator=g)
        yield (start + 3 * torch.arange(length + 1)) % VOCAB


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Decoder().to(torch.bfloat16).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    stream = token_stream(batch=4, length=12)
    for step in range(4):
        ids = next(stream).to(device)
        opt.zero_grad()
        logits, aux = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()) + 0.01 * aux
        loss.backward()
        opt.step()
        torch_xla.sync()
        xm.master_print(f"{step:3d} {loss.item():.4f}")


if __name__ == "__main__":
    main()
