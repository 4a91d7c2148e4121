"""Tiny character LM, pre-norm decoder. Trains on a synthetic copy/shift grammar."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = dict(vocab=24, dim=24, heads=2, layers=2, block=12, mlp=2, bs=8, lr=1e-3, wd=0.05, steps=4)


class RMSNorm(nn.Module):

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class CausalSelfAttention(nn.Module):

    def __init__(self, dim, heads, block):
        super().__init__()
        self.h = heads
        self.hd = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(block, block)).bool(), persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, self.hd).permute(2, 0, 3, 1, 4).unbind(0)
        att = (q @ k.transpose(-2, -1)) * self.hd ** -0.5
        att = att.masked_fill(~self.mask[:t, :t], -1e9)
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).reshape(b, t, d)
        return self.out(y)


class Block(nn.Module):

    def __init__(self, dim, heads, block, mlp):
        super().__init__()
        self.n1 = RMSNorm(dim)
        self.attn = CausalSelfAttention(dim, heads, block)
        self.n2 = RMSNorm(dim)
        self.fc1 = nn.Linear(dim, mlp * dim, bias=False)
        self.fc2 = nn.Linear(mlp * dim, dim, bias=False)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.fc2(F.gelu(self.fc1(self.n2(x)), approximate="tanh"))


class CharLM(nn.Module):

    def __init__(self, vocab, dim, heads, layers, block, mlp, **_):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(block, dim) * 0.02)
        self.blocks = nn.ModuleList([Block(dim, heads, block, mlp) for _ in range(layers)])
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, idx, targets):
        x = self.tok(idx) + self.pos[: idx.size(1)]
        for blk in self.blocks:
            x = blk(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batches(cfg, device):
    g = torch.Generator().manual_seed(3)
    while True:
        start = torch.randint(0, cfg["vocab"], (cfg["bs"], 1), generator=g)
        stride = torch.randint(1, 4, (cfg["bs"], 1), generator=g)
        seq = (start + stride * torch.arange(cfg["block"] + 1)) % cfg["vocab"]
        yield seq[:, :-1].to(device), seq[:, 1:].to(device)


def main(cfg):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = CharLM(**cfg).to(device)
    decay = [p for p in model.parameters() if p.ndim >= 2]
    no_decay = [p for p in model.parameters() if p.ndim < 2]
    opt = torch.optim.AdamW(
        [{"params": decay, "weight_decay": cfg["wd"]}, {"params": no_decay, "weight_decay": 0.0}],
        lr=cfg["lr"], betas=(0.9, 0.95))
    it = batches(cfg, device)
    losses = []
    for step in range(cfg["steps"]):
        with torch_xla.step():
            x, y = next(it)
            opt.zero_grad(set_to_none=True)
            loss = model(x, y)
            loss.backward()
            opt.step()
        losses.append(loss)
    print([round(l.item(), 4) for l in losses])


if __name__ == "__main__":
    main(CFG)
