"""Next-event model for hospital ward transfers (tiny decoder)."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

WARDS = ["admit", "er", "icu", "surgery", "cardio", "neuro", "rehab", "home", "none"]


def patient_path(rng, length):
    path, here = [0], 1
    while len(path) < length:
        path.append(here)
        if here == 7:
            break
        here = rng.choice([here % 7 + 1, (here * 3) % 7 + 1, 7 if len(path) > 5 else 2])
    return path + [8] * (length - len(path))


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        att = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        future = torch.triu(torch.ones(n, n, device=x.device), diagonal=0).bool()
        att = att.masked_fill(future, -1e9)
        y = att.softmax(-1) @ v
        return self.to_out(y.transpose(1, 2).reshape(b, n, d))


class Decoder(nn.Module):
    def __init__(self, dim=24, heads=3, depth=2, length=12):
        super().__init__()
        self.ward = nn.Embedding(len(WARDS), dim)
        self.when = nn.Embedding(length, dim)
        self.attn = nn.ModuleList(SelfAttention(dim, heads) for _ in range(depth))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
                                 for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, wards):
        x = self.ward(wards) + self.when(torch.arange(wards.size(1), device=wards.device))
        for a, m in zip(self.attn, self.mlp):
            x = x + a(self.norm(x))
            x = x + m(self.norm(x))
        return self.norm(x) @ self.ward.weight.t()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--batch", type=int, default=16)
    a = ap.parse_args()
    torch.manual_seed(31)
    rng = random.Random(31)
    device = torch_xla.device()
    model = Decoder().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(1, a.steps + 1):
        rows = torch.tensor([patient_path(rng, 13) for _ in range(a.batch)]).to(device)
        inp, nxt = rows[:, :-1], rows[:, 1:]
        logits = model(inp)
        loss = F.cross_entropy(logits.transpose(1, 2), nxt, ignore_index=8)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f} compiles {met.counter_value('UncachedCompile')}")


if __name__ == "__main__":
    main()
