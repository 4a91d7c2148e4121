import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, CTX, DIM, HEADS = 40, 10, 16, 2


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(DIM, 3 * DIM)
        self.c_proj = nn.Linear(DIM, DIM)
        self.register_buffer("bias", torch.tril(torch.ones(CTX, CTX)).view(1, 1, CTX, CTX))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(DIM, dim=2)
        q = q.view(B, T, HEADS, C // HEADS).transpose(1, 2)
        k = k.view(B, T, HEADS, C // HEADS).transpose(1, 2)
        v = v.view(B, T, HEADS, C // HEADS).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc = nn.Linear(DIM, 4 * DIM)
        self.c_proj = nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        return self.c_proj(F.silu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(DIM)
        self.attn = CausalSelfAttention()
        self.ln_2 = nn.LayerNorm(DIM)
        self.mlp = MLP()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, DIM)
        self.wpe = nn.Parameter(torch.randn(CTX, DIM) * 0.02)
        self.block = Block()
        self.ln_f = nn.LayerNorm(DIM)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe
        x = self.ln_f(self.block(x))
        logits = x @ self.wte.weight.t()
        loss = F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1), ignore_index=-1)
        return logits, loss


def get_batch(g, bs=4):
    start = torch.randint(0, VOCAB, (bs, 1), generator=g)
    stride = torch.randint(1, 5, (bs, 1), generator=g)
    seq = (start + stride * torch.arange(CTX + 1)) % VOCAB
    x, y = seq[:, :-1].contiguous(), seq[:, 1:].contiguous()
    y = torch.where(torch.rand(y.shape, generator=g) < 0.1, torch.full_like(y, -1), y)
    return x, y


def main():
    torch.manual_seed(1337)
    device = xm.xla_device()
    g = torch.Generator().manual_seed(9)
    model = NanoGPT().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    for it in range(5):
        x, y = get_batch(g)
        x, y = x.to(device), y.to(device)
        logits, loss = model(x, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        acc = (logits.argmax(-1) == y).float().mean()
        xm.mark_step()
        print(f"iter {it}: loss {loss.item():.6f}, acc {acc.item():.4f}")


if __name__ == "__main__":
    main()
