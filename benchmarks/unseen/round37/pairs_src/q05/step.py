"""Streaming melody continuation: one token per step, sliding-window cache."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, HEADS, LAYERS, WINDOW = 40, 24, 3, 3, 6
DH = DIM // HEADS


class WindowCache:
    """Ring buffer over the last WINDOW positions of one layer."""

    def __init__(self, batch, device):
        self.k = torch.zeros(batch, HEADS, WINDOW, DH, device=device)
        self.v = torch.zeros(batch, HEADS, WINDOW, DH, device=device)
        self.seen = 0

    def push(self, k, v):
        slot = self.seen % WINDOW
        self.k[:, :, slot] = k
        self.v[:, :, slot] = v
        self.seen += 1

    def ordered(self):
        n = min(self.seen, WINDOW)
        k, v = self.k[:, :, :n], self.v[:, :, :n]
        shift = self.seen % WINDOW
        if self.seen > WINDOW and shift:
            k = torch.roll(k, -shift, dims=2)
            v = torch.roll(v, -shift, dims=2)
        return k, v


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1 = nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM)
        self.n2 = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.gate = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)
        self.age = nn.Parameter(0.1 * torch.randn(HEADS, WINDOW))

    def forward(self, x, cache):
        b = x.shape[0]
        q, k, v = self.qkv(self.n1(x)).view(b, 3, HEADS, DH).unbind(1)
        cache.push(k, v)
        ks, vs = cache.ordered()
        att = torch.einsum("bhd,bhnd->bhn", q, ks) / DH ** 0.5
        att = att + self.age[:, WINDOW - ks.shape[2]:]
        y = torch.einsum("bhn,bhnd->bhd", torch.softmax(att, -1), vs)
        x = x + self.proj(y.reshape(b, DIM))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Melody(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)

    def forward(self, tok, caches):
        x = self.tok(tok)
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache)
        return self.norm(x) @ self.tok.weight.t()


@torch.no_grad()
def main():
    torch.manual_seed(4)
    dev = torch_xla.device()
    model = Melody().to(dev).eval()
    caches = [WindowCache(2, dev) for _ in range(LAYERS)]
    tok = torch.tensor([3, 17]).to(dev)
    score = torch.zeros(2, device=dev)
    torch_xla.sync()
    for t in range(10):
        logits = model(tok, caches)
        logp = torch.log_softmax(logits / 0.8, dim=-1)
        # no immediate repetition of the same note
        logp = logp.scatter(1, tok.unsqueeze(1), float("-inf"))
        best, tok = logp.max(dim=-1)
        score = score + best
        if len(sys.argv) > 2 and t in (5, 6):
            state = [c for cache in caches for c in (cache.k, cache.v)]
            text = torch_xla._XLAC._get_xla_tensors_hlo(state + [tok, score, best, logp, logits])
            with open(sys.argv[1 if t == 5 else 2], "w") as fh:
                fh.write(text)
        torch_xla.sync()
        print(t, tok.tolist(), score.tolist())


if __name__ == "__main__":
    main()
