"""Character level language model with rotary attention; one file, CPU or TPU."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

cfg = {
    "vocab": 40,
    "ctx": 10,
    "d_model": 24,
    "n_head": 3,
    "n_layer": 2,
    "d_ff": 48,
    "batch": 4,
    "lr": 0.05,
    "momentum": 0.9,
    "z_coef": 1e-3,
    "steps": 4,
}


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        inv = torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps)
        return x * inv * self.scale


def rotary_table(ctx, dim):
    freq = 1.0 / (100.0 ** (torch.arange(0, dim, 2).float() / dim))
    ang = torch.outer(torch.arange(ctx).float(), freq)
    return torch.cos(ang), torch.sin(ang)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n_head = c["n_head"]
        self.wq = nn.Linear(c["d_model"], c["d_model"], bias=False)
        self.wk = nn.Linear(c["d_model"], c["d_model"], bias=False)
        self.wv = nn.Linear(c["d_model"], c["d_model"], bias=False)
        self.wo = nn.Linear(c["d_model"], c["d_model"], bias=False)

    def forward(self, x, cos, sin, mask):
        b, t, d = x.shape
        q = self.wq(x).view(b, t, self.n_head, -1).transpose(1, 2)
        k = self.wk(x).view(b, t, self.n_head, -1).transpose(1, 2)
        v = self.wv(x).view(b, t, self.n_head, -1).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        score = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(d // self.n_head)
        score = score.masked_fill(mask, float("-inf"))
        out = torch.matmul(F.softmax(score, dim=-1), v)
        return self.wo(out.transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(c["d_model"]), RMSNorm(c["d_model"])
        self.attn = Attention(c)
        self.gate = nn.Linear(c["d_model"], c["d_ff"], bias=False)
        self.up = nn.Linear(c["d_model"], c["d_ff"], bias=False)
        self.down = nn.Linear(c["d_ff"], c["d_model"], bias=False)

    def forward(self, x, cos, sin, mask):
        x = x + self.attn(self.norm1(x), cos, sin, mask)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class CharLM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Embedding(c["vocab"], c["d_model"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["n_layer"]))
        self.norm = RMSNorm(c["d_model"])
        cos, sin = rotary_table(c["ctx"], c["d_model"] // c["n_head"])
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        self.register_buffer("mask", torch.triu(torch.ones(c["ctx"], c["ctx"]), 1).bool())

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.mask)
        return F.linear(self.norm(x), self.embed.weight)


def compute_loss(model, text):
    inputs, targets = text[:, :-1], text[:, 1:]
    logits = model(inputs).flatten(0, 1)
    ce = F.cross_entropy(logits, targets.flatten())
    z = torch.logsumexp(logits, dim=-1).pow(2).mean()
    return ce + cfg["z_coef"] * z, ce


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = CharLM(cfg).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg["lr"], momentum=cfg["momentum"])
    gen = torch.Generator().manual_seed(1)
    for step in range(cfg["steps"]):
        text = torch.randint(0, cfg["vocab"], (cfg["batch"], cfg["ctx"] + 1), generator=gen).to(device)
        loss, ce = compute_loss(model, text)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        print(f"step {step} loss {loss.item():.6f} ce {ce.item():.6f}")


if __name__ == "__main__":
    main()
