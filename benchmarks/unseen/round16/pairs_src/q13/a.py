"""Next-move model for a board game: decoder over move tokens with windowed attention."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

MOVES = 48


def band_mask(n, window, device):
    """True where attention is forbidden."""
    i = torch.arange(n, device=device)
    gap = i[:, None] - i[None, :]
    return (gap < 0) | (gap > window)


class Attention(nn.Module):
    def __init__(self, d, heads, window):
        super().__init__()
        self.h, self.window = heads, window
        self.q, self.kv = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d, bias=False)
        self.o = nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        split = lambda t: t.view(b, n, self.h, -1).transpose(1, 2)
        k, v = self.kv(x).chunk(2, -1)
        q, k, v = split(self.q(x)), split(k), split(v)
        s = q @ k.transpose(2, 3) / math.sqrt(d / self.h)
        s = s.masked_fill(band_mask(n, self.window, x.device), float("-inf"))
        return self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, d, heads, window):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = Attention(d, heads, window)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.down(F.relu(self.up(self.ln2(x))).square())


class MovePredictor(nn.Module):
    def __init__(self, d=16, heads=2, windows=(4, 8), max_len=16):
        super().__init__()
        self.tok, self.pos = nn.Embedding(MOVES, d), nn.Embedding(max_len, d)
        self.blocks = nn.ModuleList(Block(d, heads, w) for w in windows)
        self.ln = nn.LayerNorm(d)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        for b in self.blocks:
            x = b(x)
        return self.ln(x) @ self.tok.weight.t()


def games(batch, length, seed):
    g = torch.Generator().manual_seed(seed)
    start = torch.randint(0, MOVES, (batch, 1), generator=g)
    stride = torch.randint(1, 5, (batch, 1), generator=g)
    return (start + stride * torch.arange(length + 1)) % MOVES


def main(steps=10, batch=8, length=16):
    torch.manual_seed(5)
    dev = xm.xla_device()
    model = MovePredictor(max_len=length).to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    xm.mark_step()
    for step in range(steps):
        seq = games(batch, length, step).to(dev)
        logits = model(seq[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), seq[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        if step % 5 == 4:
            print(step, f"ppl {math.exp(min(20, loss.item())):.2f}")


if __name__ == "__main__":
    main()
