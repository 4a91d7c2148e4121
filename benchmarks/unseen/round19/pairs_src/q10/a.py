import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-2, -1) / math.sqrt(self.hd)
        keep = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        att = att.masked_fill(~keep, float("-inf")).softmax(-1)
        return self.proj((att @ v).transpose(1, 2).reshape(B, T, D))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class ByteLM(nn.Module):
    def __init__(self, vocab=96, dim=32, heads=4, depth=2, ctx=24):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.zeros(ctx, dim))
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        h = self.blocks(self.tok(ids) + self.pos[: ids.shape[1]])
        return self.norm(h) @ self.tok.weight.t()


def train():
    torch.manual_seed(0)
    dev = torch_xla.device()
    lm = ByteLM().to(dev)
    opt = torch.optim.AdamW(lm.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(4):
        ids = torch.randint(0, 96, (4, 25)).to(dev)
        logits = lm(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, 96), ids[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        torch_xla.sync()
    print(loss.item())


if __name__ == "__main__":
    train()
