"""Decoder-only model over MIDI event tokens: RMSNorm, rotary positions, grouped-query attention, SwiGLU."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, HEADS, KV_HEADS, LAYERS, SEQ, BATCH = 40, 24, 4, 2, 1, 12, 3
HEAD_DIM = DIM // HEADS
FFN = 40
PAD = 0


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        ms = (x * x).mean(-1, keepdim=True)
        return self.weight * (x / torch.sqrt(ms + self.eps))


def rotary_tables(seq, dim, device):
    inv = 1.0 / (10000 ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
    ang = torch.outer(torch.arange(seq, dtype=torch.float32), inv)
    return ang.cos().to(device), ang.sin().to(device)


def rotate(x, cos, sin):
    # x: [B, T, ..., D]; tables: [T, D/2]
    shape = (x.shape[1],) + (1,) * (x.dim() - 3) + (-1,)
    cos, sin = cos.view(shape), sin.view(shape)
    h = x.shape[-1] // 2
    a, b = x[..., :h], x[..., h:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wqkv = nn.Linear(DIM, (HEADS + 2 * KV_HEADS) * HEAD_DIM, bias=False)
        self.o = nn.Linear(HEADS * HEAD_DIM, DIM, bias=False)
        self.scale = HEAD_DIM**-0.5

    def forward(self, x, cos, sin, mask_bias):
        B, T, _ = x.shape
        qkv = self.wqkv(x).view(B, T, HEADS + 2 * KV_HEADS, HEAD_DIM)
        q, k, v = qkv.split([HEADS, KV_HEADS, KV_HEADS], dim=2)
        q = rotate(q.reshape(B, T, KV_HEADS, HEADS // KV_HEADS, HEAD_DIM), cos, sin)
        k = rotate(k, cos, sin)
        att = torch.einsum("btgrd,bsgd->bgrts", q * self.scale, k) + mask_bias
        att = F.softmax(att, dim=-1)
        y = torch.einsum("bgrts,bsgd->btgrd", att, v)
        return self.o(y.flatten(2))


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up = nn.Linear(DIM, 2 * FFN, bias=False)
        self.down = nn.Linear(FFN, DIM, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(up * F.silu(gate))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMSNorm(DIM), RMSNorm(DIM)
        self.att, self.ffn = Attention(), SwiGLU()

    def forward(self, x, cos, sin, mask_bias):
        x = x + self.att(self.n1(x), cos, sin, mask_bias)
        return x + self.ffn(self.n2(x))


class MidiLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RMSNorm(DIM)

    def forward(self, tokens, cos, sin, mask_bias):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin, mask_bias)
        return F.linear(self.norm(x), self.embed.weight)


def batches(seed=0):
    rng = np.random.default_rng(seed)
    while True:
        x = rng.integers(1, VOCAB, (BATCH, SEQ + 1))
        x[:, 2::3] = (x[:, 1:-1:3][:, : x[:, 2::3].shape[1]] + 7) % (VOCAB - 1) + 1
        for row, n in zip(x, rng.integers(SEQ // 2, SEQ + 2, BATCH)):
            row[n:] = PAD
        yield torch.from_numpy(x)


def loss_fn(logits, target):
    keep = (target != PAD).to(logits.dtype)
    logp = logits.log_softmax(-1)
    nll = -logp.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return (nll * keep).sum() / keep.sum()


def build(device):
    torch.manual_seed(2)
    return MidiLM().to(device)


def train(model, device, steps=6):
    cos, sin = rotary_tables(SEQ, HEAD_DIM, device)
    mask_bias = torch.full((SEQ, SEQ), float("-inf")).triu(1).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    data, losses = batches(), []
    for _ in range(steps):
        tokens = next(data).to(device)
        inputs, target = tokens[:, :-1], tokens[:, 1:]
        opt.zero_grad()
        loss = loss_fn(model(inputs, cos, sin, mask_bias), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        torch_xla.sync()
        losses.append(loss.detach())
    return [l.item() for l in losses]


if __name__ == "__main__":
    device = torch_xla.device()
    print(" ".join(f"{l:.6f}" for l in train(build(device), device)))
