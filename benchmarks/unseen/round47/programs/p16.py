"""Small batch server for a grouped-query decoder: padded prefill in buckets, one decode step, fixed KV slots."""
import bisect
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, LAYERS = 64, 32, 2
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 8
SLOTS, MAX_LEN = 4, 64
PREFILL = (8, 16, 32)
EOS = 1


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * self.weight


def rotate(x, pos):
    half = x.shape[-1] // 2
    freq = 10000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = pos[:, :, None, None].float() * freq
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * ang.cos() - b * ang.sin(), a * ang.sin() + b * ang.cos()], dim=-1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMSNorm(DIM), RMSNorm(DIM)
        self.q = nn.Linear(DIM, HEADS * HEAD_DIM, bias=False)
        self.kv = nn.Linear(DIM, 2 * KV_HEADS * HEAD_DIM, bias=False)
        self.o = nn.Linear(HEADS * HEAD_DIM, DIM, bias=False)
        self.up = nn.Linear(DIM, 4 * DIM, bias=False)
        self.down = nn.Linear(2 * DIM, DIM, bias=False)

    def forward(self, x, pos, rows, cache):
        b, t, _ = x.shape
        h = self.n1(x)
        q = rotate(self.q(h).view(b, t, HEADS, HEAD_DIM), pos)
        k, v = self.kv(h).view(b, t, 2 * KV_HEADS, HEAD_DIM).chunk(2, dim=2)
        k = rotate(k, pos)
        keys, values = cache
        keys.index_put_((rows[:, None], pos), k)
        values.index_put_((rows[:, None], pos), v)
        k = keys.index_select(0, rows).repeat_interleave(HEADS // KV_HEADS, dim=2)
        v = values.index_select(0, rows).repeat_interleave(HEADS // KV_HEADS, dim=2)
        score = torch.einsum("bthd,bshd->bhts", q, k) * HEAD_DIM ** -0.5
        seen = torch.arange(MAX_LEN, device=x.device)[None, None] <= pos[:, :, None]
        score = score.masked_fill(~seen[:, None], -1e9)
        att = torch.einsum("bhts,bshd->bthd", score.softmax(dim=-1), v).reshape(b, t, -1)
        x = x + self.o(att)
        gate, val = self.up(self.n2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * val)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = RMSNorm(DIM)

    def forward(self, tokens, pos, rows, caches):
        x = self.embed(tokens)
        for block, cache in zip(self.blocks, caches):
            x = block(x, pos, rows, cache)
        return self.norm(x)


class Server:
    def __init__(self, model, device):
        self.model, self.device = model, device
        shape = (SLOTS, MAX_LEN, KV_HEADS, HEAD_DIM)
        self.caches = [(torch.zeros(shape, device=device), torch.zeros(shape, device=device)) for _ in range(LAYERS)]
        self.lengths = np.zeros(SLOTS, dtype=np.int64)
        self.last = np.zeros(SLOTS, dtype=np.int64)
        self.active = [None] * SLOTS
        self.waiting, self.finished = deque(), []
        self.all_rows = torch.arange(SLOTS).to(device)

    def logits(self, h):
        return F.linear(h, self.model.embed.weight)

    def admit(self, slot, request):
        prompt = request["prompt"]
        width = PREFILL[bisect.bisect_left(PREFILL, len(prompt))]
        tokens = torch.zeros(1, width, dtype=torch.long)
        tokens[0, :len(prompt)] = torch.from_numpy(prompt)
        h = self.model(tokens.to(self.device), torch.arange(width).unsqueeze(0).to(self.device),
                       torch.tensor([slot]).to(self.device), self.caches)
        at = torch.tensor([len(prompt) - 1]).to(self.device)
        token = self.logits(h.index_select(1, at)[:, 0]).argmax(dim=-1)
        torch_xla.sync()
        self.lengths[slot], self.last[slot] = len(prompt), token.item()
        request["out"] = [int(self.last[slot])]
        self.active[slot] = request

    def decode(self):
        tokens = torch.from_numpy(self.last.copy()).unsqueeze(1).to(self.device)
        pos = torch.from_numpy(self.lengths.copy()).unsqueeze(1).to(self.device)
        h = self.model(tokens, pos, self.all_rows, self.caches)
        token = self.logits(h[:, -1]).argmax(dim=-1)
        torch_xla.sync()
        for slot, nxt in enumerate(token.cpu().tolist()):
            request = self.active[slot]
            if request is None:
                continue
            request["out"].append(nxt)
            self.lengths[slot] += 1
            self.last[slot] = nxt
            if nxt == EOS or len(request["out"]) >= request["budget"] or self.lengths[slot] >= MAX_LEN - 1:
                self.finished.append(request)
                self.active[slot] = None
                self.lengths[slot] = self.last[slot] = 0

    def tick(self):
        for slot in range(SLOTS):
            if self.active[slot] is None and self.waiting:
                self.admit(slot, self.waiting.popleft())
        self.decode()


@torch.no_grad()
def main(ticks=60):
    torch.manual_seed(9)
    rng = np.random.default_rng(9)
    device = torch_xla.device()
    server = Server(Decoder().to(device).eval(), device)
    torch_xla.sync()

    for n in (30, 13, 6):
        server.waiting.append({"prompt": rng.integers(2, VOCAB, n), "budget": 4})
    for tick in range(ticks):
        for _ in range(rng.poisson(0.35)):
            n = int(rng.integers(3, PREFILL[-1] + 1))
            server.waiting.append({"prompt": rng.integers(2, VOCAB, n), "budget": int(rng.integers(5, 16))})
        server.tick()
        if (tick + 1) % 15 == 0:
            busy = sum(r is not None for r in server.active)
            print(f"tick {tick + 1:3d} busy {busy} waiting {len(server.waiting)} finished {len(server.finished)}")


if __name__ == "__main__":
    main()
