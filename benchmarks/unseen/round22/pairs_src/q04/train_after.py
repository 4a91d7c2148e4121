"""Tiny decoder-only LM in bf16 with fp32 master optimizer state."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, DIM, HEADS, DEPTH, CTX, BATCH = 40, 32, 4, 2, 12, 3


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * x


def rope_table(dim, length, base=10000.0):
    inv = base ** (-torch.arange(0, dim, 2).float() / dim)
    ang = torch.outer(torch.arange(length).float(), inv)
    return torch.cos(ang), torch.sin(ang)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(DIM, DIM, bias=False)
        self.wk = nn.Linear(DIM, DIM, bias=False)
        self.wv = nn.Linear(DIM, DIM, bias=False)
        self.wo = nn.Linear(DIM, DIM, bias=False)
        mask = torch.full((CTX, CTX), -1e4)
        self.register_buffer("mask_value", mask)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape

        def split(h):
            return h.view(b, t, HEADS, -1).transpose(1, 2)

        q = rotate(split(self.wq(x)), cos, sin)
        k = rotate(split(self.wk(x)), cos, sin)
        v = split(self.wv(x))
        scores = torch.matmul(q, k.transpose(2, 3)) * (DIM // HEADS) ** -0.5
        causal = torch.triu(self.mask_value[:t, :t], diagonal=0)
        probs = torch.softmax(scores.float() + causal, dim=-1).type_as(q)
        return self.wo(torch.matmul(probs, v).transpose(1, 2).reshape(b, t, -1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMSNorm(DIM), RMSNorm(DIM)
        self.attn = Attention()
        self.w1 = nn.Linear(DIM, 2 * DIM, bias=False)
        self.w2 = nn.Linear(2 * DIM, DIM, bias=False)
        self.w3 = nn.Linear(DIM, 2 * DIM, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attn(self.n1(x), cos, sin)
        h = self.n2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.norm = RMSNorm(DIM)
        self.out = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids, cos, sin):
        x = self.tok(ids)
        for blk in self.blocks:
            x = blk(x, cos, sin)
        return self.out(self.norm(x))


def main():
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = LM().to(torch.bfloat16).to(dev)
    for blk in model.blocks:
        blk.attn.mask_value = blk.attn.mask_value.float()
    cos, sin = (t.to(torch.bfloat16).to(dev) for t in rope_table(DIM // HEADS, CTX))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch_xla.sync()

    for step in range(3):
        ids = torch.randint(0, VOCAB, (BATCH, CTX + 1)).to(dev)
        logits = model(ids[:, :-1], cos, sin)
        loss = F.cross_entropy(logits.float().reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        print(step, loss.item())


if __name__ == "__main__":
    main()
