import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class ModelArgs:
    dim = 32
    n_layers = 2
    n_heads = 4
    n_kv_heads = 2
    vocab_size = 40
    ffn_dim = 48
    norm_eps = 1e-5
    max_seq_len = 16
    rope_theta = 10000.0


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rope_tables(head_dim, length, theta):
    inv = 1.0 / (theta ** (torch.arange(0, head_dim, 2).float() / head_dim))
    ang = torch.outer(torch.arange(length).float(), inv)
    ang = torch.cat([ang, ang], dim=-1)
    return ang.cos(), ang.sin()


def apply_rope(x, cos, sin):
    half = x.shape[-1] // 2
    rotated = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + rotated * sin


def expand_kv(x, n_rep):
    """(bs, kv_heads, seq, hd) -> (bs, heads, seq, hd)"""
    bs, kv, seq, hd = x.shape
    if n_rep == 1:
        return x
    x = x[:, :, None].expand(bs, kv, n_rep, seq, hd)
    return x.reshape(bs, kv * n_rep, seq, hd)


class Attention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.hd = a.dim // a.n_heads
        self.h, self.kv = a.n_heads, a.n_kv_heads
        self.wq = nn.Linear(a.dim, self.h * self.hd, bias=False)
        self.wk = nn.Linear(a.dim, self.kv * self.hd, bias=False)
        self.wv = nn.Linear(a.dim, self.kv * self.hd, bias=False)
        self.wo = nn.Linear(self.h * self.hd, a.dim, bias=False)

    def forward(self, x, cos, sin, mask):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.h, self.hd).transpose(1, 2)
        k = self.wk(x).view(b, t, self.kv, self.hd).transpose(1, 2)
        v = self.wv(x).view(b, t, self.kv, self.hd).transpose(1, 2)
        q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)
        k = expand_kv(k, self.h // self.kv)
        v = expand_kv(v, self.h // self.kv)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.hd) + mask
        out = F.softmax(scores, dim=-1) @ v
        return self.wo(out.transpose(1, 2).reshape(b, t, -1))


class Layer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.attn = Attention(a)
        self.n1, self.n2 = RMSNorm(a.dim, a.norm_eps), RMSNorm(a.dim, a.norm_eps)
        self.w1 = nn.Linear(a.dim, a.ffn_dim, bias=False)
        self.w2 = nn.Linear(a.ffn_dim, a.dim, bias=False)
        self.w3 = nn.Linear(a.dim, a.ffn_dim, bias=False)

    def forward(self, x, cos, sin, mask):
        x = x + self.attn(self.n1(x), cos, sin, mask)
        h = self.n2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Llamette(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.emb = nn.Embedding(a.vocab_size, a.dim)
        self.layers = nn.ModuleList(Layer(a) for _ in range(a.n_layers))
        self.norm = RMSNorm(a.dim, a.norm_eps)
        cos, sin = rope_tables(a.dim // a.n_heads, a.max_seq_len, a.rope_theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        mask = torch.full((a.max_seq_len, a.max_seq_len), -1e9).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, tokens):
        x = self.emb(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.mask)
        return F.linear(self.norm(x), self.emb.weight)


def main():
    args = ModelArgs()
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = Llamette(args).to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=0.01)
    torch_xla.sync()
    for step in range(3):
        seq = (torch.arange(args.max_seq_len + 1) * (step + 2) + torch.arange(4)[:, None]) % args.vocab_size
        seq = seq.to(dev)
        torch_xla.sync()
        opt.zero_grad()
        logits = model(seq[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), seq[:, 1:].flatten())
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        print("step", step, "loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()
