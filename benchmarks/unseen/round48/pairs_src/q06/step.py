"""Decoding of symbolic music (event tokens) with a fixed-size key/value cache.

Writes the graph of two consecutive decoding steps of the same run.
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, HEADS, MAXLEN, LAYERS = 40, 16, 2, 24, 2


class CachedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM, bias=False)
        self.register_buffer("slope", 2.0 ** -torch.arange(1, HEADS + 1).float())

    def forward(self, x, cache, cur, pos):
        b = x.shape[0]
        q, k, v = self.qkv(x).view(b, 3, HEADS, DIM // HEADS).unbind(1)
        cache[0][:, :, cur] = k
        cache[1][:, :, cur] = v
        where = torch.arange(MAXLEN, device=x.device)
        score = torch.einsum("bhd,bhnd->bhn", q, cache[0]) / (DIM // HEADS) ** 0.5
        score = score - self.slope[None, :, None] * (pos - where).clamp(min=0)
        score = score.masked_fill(where[None, None, :] > pos, -1e9)
        attn = F.softmax(score, dim=-1)
        return self.proj(torch.einsum("bhn,bhnd->bhd", attn, cache[1]).reshape(b, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1 = nn.RMSNorm(DIM, eps=1e-6)
        self.attn = CachedAttention()
        self.n2 = nn.RMSNorm(DIM, eps=1e-6)
        self.gate = nn.Linear(DIM, 2 * DIM, bias=False)
        self.up = nn.Linear(DIM, 2 * DIM, bias=False)
        self.down = nn.Linear(2 * DIM, DIM, bias=False)

    def forward(self, x, cache, cur, pos):
        x = x + self.attn(self.n1(x), cache, cur, pos)
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class MusicLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(DIM, eps=1e-6)

    def forward(self, tok, caches, cur, pos):
        x = self.emb(tok)
        for blk, cache in zip(self.blocks, caches):
            x = blk(x, cache, cur, pos)
        return self.norm(x) @ self.emb.weight.t()


@torch.no_grad()
def decode_step(model, state, cur):
    logits = model(state["tok"], state["caches"], cur, state["pos"])
    # repetition penalty over everything emitted so far
    seen = state["count"] > 0
    logits = torch.where(seen & (logits > 0), logits / 1.2, logits)
    logits = torch.where(seen & (logits < 0), logits * 1.2, logits)
    logp = F.log_softmax(logits, dim=-1)
    tok = logp.argmax(dim=-1)
    alive = 1 - state["done"]
    tok = tok * alive                          # token 0 is the pad
    state["logp"] += logp.gather(1, tok[:, None]).squeeze(1) * alive
    state["done"] = torch.maximum(state["done"], (tok == 1).long())
    state["count"] += F.one_hot(tok, VOCAB)
    state["tok"] = tok
    state["pos"] += 1


def main(out_a, out_b):
    torch.manual_seed(8)
    dev = torch_xla.device()
    model = MusicLM().to(dev).eval()
    b = 3
    state = {
        "tok": torch.tensor([5, 9, 17]).to(dev),
        "pos": torch.tensor(0).to(dev),
        "done": torch.tensor([0, 0, 0]).to(dev),
        "logp": torch.tensor([0.0, 0.0, 0.0]).to(dev),
        "count": F.one_hot(torch.tensor([5, 9, 17]), VOCAB).to(dev),
        "caches": [
            [torch.zeros(b, HEADS, MAXLEN, DIM // HEADS).to(dev) for _ in range(2)]
            for _ in range(LAYERS)
        ],
    }
    torch_xla.sync()
    for cur in range(10):
        decode_step(model, state, cur)
        live = [state[k] for k in ("tok", "pos", "done", "logp", "count")]
        live += [c for pair in state["caches"] for c in pair]
        path = {6: out_a, 7: out_b}.get(cur)
        if path:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(cur, state["tok"].tolist(), state["logp"].tolist())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
