"""LoRA fine-tuning of a small decoder, gradient accumulation over two micro-batches."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, HEADS, LAYERS, SEQ, BATCH = 96, 32, 4, 1, 16, 4
ACCUM = 2
TOTAL_UPDATES = 8
WARMUP = 2


class LoRALinear(nn.Module):
    def __init__(self, din, dout, r=4, alpha=8, p=0.05):
        super().__init__()
        self.base = nn.Linear(din, dout, bias=False)
        self.base.weight.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(r, din) / math.sqrt(din))
        self.lora_b = nn.Parameter(torch.zeros(dout, r))
        self.scaling = alpha / r
        self.drop = nn.Dropout(p)

    def forward(self, x):
        delta = F.linear(F.linear(self.drop(x), self.lora_a), self.lora_b)
        return self.base(x) + delta * self.scaling


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMSNorm(DIM), RMSNorm(DIM)
        self.q, self.v = LoRALinear(DIM, DIM), LoRALinear(DIM, DIM)
        self.k, self.o = nn.Linear(DIM, DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.up, self.down = nn.Linear(DIM, 2 * DIM, bias=False), nn.Linear(2 * DIM, DIM, bias=False)
        for m in (self.n1, self.n2, self.k, self.o, self.up, self.down):
            m.requires_grad_(False)

    def forward(self, x, mask):
        b, t, _ = x.shape
        h = self.n1(x)
        q, k, v = (f(h).view(b, t, HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        att = (q @ k.transpose(-1, -2)) / math.sqrt(DIM // HEADS)
        att = att.masked_fill(mask, -1e4).softmax(-1)
        x = x + self.o((att @ v).transpose(1, 2).reshape(b, t, DIM))
        return x + self.down(F.silu(self.up(self.n2(x))))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        nn.init.normal_(self.emb.weight, std=0.05)
        self.emb.requires_grad_(False)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = RMSNorm(DIM)
        self.norm.requires_grad_(False)
        self.register_buffer("mask", torch.triu(torch.ones(SEQ, SEQ, dtype=torch.bool), 1))

    def forward(self, ids):
        x = self.emb(ids)
        for blk in self.blocks:
            x = blk(x, self.mask)
        return self.norm(x) @ self.emb.weight.t()


def linear_schedule(step):
    if step < WARMUP:
        return (step + 1) / (WARMUP + 1)
    return max(0.0, (TOTAL_UPDATES - step) / (TOTAL_UPDATES - WARMUP))


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    model = LM().to(device)
    trainable = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(trainable, lr=2e-3, weight_decay=0.01, foreach=False)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, linear_schedule)
    g = torch.Generator().manual_seed(3)
    torch_xla.sync()
    for update in range(TOTAL_UPDATES):
        total = torch.zeros((), device=device)
        for _ in range(ACCUM):
            ids = torch.randint(0, VOCAB, (BATCH, SEQ), generator=g).to(device)
            labels = torch.randint(0, VOCAB, (BATCH, SEQ), generator=g).to(device)
            logits = model(ids)
            loss = F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1)) / ACCUM
            loss.backward()
            total = total + loss.detach()
            sched.step()
        torch.nn.utils.clip_grad_norm_(trainable, 1.0, foreach=False)
        opt.step()
        opt.zero_grad()
        torch_xla.sync()
        print(update, round(total.item(), 4), flush=True)


if __name__ == "__main__":
    main()
