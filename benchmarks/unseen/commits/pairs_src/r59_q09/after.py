"""Pre-training of a one-layer mixture-of-experts language model in bfloat16."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, HEADS, EXPERTS, TOPK, SEQ, BATCH = 80, 32, 4, 4, 2, 12, 4
BIAS_RATE = 1e-3


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, DIM) * 0.02)
        self.register_buffer("bias", torch.zeros(EXPERTS))

    def forward(self, x):
        with torch.autocast("xla", enabled=False):
            logits = F.linear(x.float(), self.weight)
        probs = logits.softmax(-1)
        idx = (probs.detach() + self.bias).topk(TOPK, -1).indices
        top = probs.gather(-1, idx)
        onehot = F.one_hot(idx, EXPERTS).to(probs.dtype)
        gates = ((top / top.sum(-1, keepdim=True)).unsqueeze(-1) * onehot).sum(1)
        if self.training:
            self.update_bias(onehot)
        return gates

    @torch.no_grad()
    def update_bias(self, onehot):
        load = onehot.sum(1).mean(0) / TOPK
        self.bias.add_(BIAS_RATE * torch.sign(1.0 / EXPERTS - load))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(EXPERTS, DIM, 2 * DIM) / math.sqrt(DIM))
        self.w2 = nn.Parameter(torch.randn(EXPERTS, 2 * DIM, DIM) / math.sqrt(2 * DIM))
        self.router = Router()

    def forward(self, x):
        b, t, d = x.shape
        flat = x.reshape(b * t, d)
        gates = self.router(flat)
        h = F.silu(torch.matmul(flat.expand(EXPERTS, -1, -1), self.w1))
        y = torch.matmul(h, self.w2)
        return (y * gates.t().unsqueeze(-1)).sum(0).view(b, t, d)


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
        x = x + self.moe(self.n2(x))
        return F.linear(self.n3(x), self.emb.weight)


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
            logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.float().reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, round(loss.item(), 6), flush=True)


if __name__ == "__main__":
    main()
