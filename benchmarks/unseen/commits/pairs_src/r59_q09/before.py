"""Pre-training of a one-layer mixture-of-experts language model in bfloat16."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, HEADS, EXPERTS, TOPK, SEQ, BATCH = 80, 32, 4, 4, 2, 12, 4


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, DIM) * 0.02)

    def forward(self, x):
        with torch.autocast("xla", enabled=False):
            logits = F.linear(x.float(), self.weight)
        probs = logits.softmax(-1)
        top, idx = probs.topk(TOPK, -1)
        onehot = F.one_hot(idx, EXPERTS).to(probs.dtype)
        gates = ((top / top.sum(-1, keepdim=True)).unsqueeze(-1) * onehot).sum(1)
        load = onehot.sum(1).mean(0) / TOPK
        aux = EXPERTS * (load * probs.mean(0)).sum()
        return gates, aux


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(EXPERTS, DIM, 2 * DIM) / math.sqrt(DIM))
        self.w2 = nn.Parameter(torch.randn(EXPERTS, 2 * DIM, DIM) / math.sqrt(2 * DIM))
        self.router = Router()

    def forward(self, x):
        b, t, d = x.shape
        flat = x.reshape(b * t, d)
        gates, aux = self.router(flat)
        h = F.silu(torch.matmul(flat.expand(EXPERTS, -1, -1), self.w1))
        y = torch.matmul(h, self.w2)
        return (y * gates.t().unsqueeze(-1)).sum(0).view(b, t, d), aux


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        nn.init.normal_(self.emb.weight, std=0.1)
        self.pos = nn.Parameter(torch.randn(SEQ, DIM) * 0.02)
        self.n1, self.n2, self.n3 = (nn.LayerNorm(DIM) for _ in range(3))
        self.qkv, self.o = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.moe = Experts()
        self.register_buffer("mask", torch.triu(torch.ones(SEQ, SEQ, dtype=torch.bool), 1), persistent=False)

    def forward(self, ids):
        x = self.emb(ids) + self.pos
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        s = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(d // HEADS)
        s = s.masked_fill(self.mask, -1e4).softmax(-1).to(v.dtype)
        x = x + self.o(torch.matmul(s, v).transpose(1, 2).reshape(b, t, d))
        y, aux = self.moe(self.n2(x))
        return F.linear(self.n3(x + y), self.emb.weight), aux


def main():
    torch.manual_seed(31)
    device = torch_xla.device()
    model = LM().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), foreach=False)
    gen = torch.Generator().manual_seed(6)
    torch_xla.sync()
    for step in range(6):
        ids = torch.randint(0, VOCAB, (BATCH, SEQ + 1), generator=gen).to(device)
        opt.zero_grad()
        with torch.autocast("xla", dtype=torch.bfloat16):
            logits, aux = model(ids[:, :-1])
        ce = F.cross_entropy(logits.float().reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
        loss = ce + 0.01 * aux.float()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, round(loss.item(), 6), flush=True)


if __name__ == "__main__":
    main()
