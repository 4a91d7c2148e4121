"""Segment-recurrent transformer for symbolic music (event tokens), with sampling."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, D, HEADS, LAYERS = 48, 24, 2, 1
BATCH, SEG, MEM_LEN = 4, 12, 24
STEPS, SAMPLE_EVERY = 20, 10


def make_tune(rng, length):
    """A random walk over scale degrees with repeated motifs."""
    scale = [0, 2, 4, 5, 7, 9, 11]
    motif = rng.integers(-2, 3, size=8)
    pos, out = int(rng.integers(0, 14)), []
    for i in range(length):
        pos = int(np.clip(pos + motif[i % 8] + rng.integers(-1, 2) * (i % 5 == 0), 0, 20))
        out.append(12 * (pos // 7) + scale[pos % 7])
    return np.array(out)


class StreamingTunes:
    """Contiguous lanes, so that lane b of segment k+1 follows lane b of segment k."""

    def __init__(self, batch, seg, n_seg, seed):
        rng = np.random.default_rng(seed)
        self.lanes = np.stack([make_tune(rng, seg * n_seg + 1) for _ in range(batch)])
        self.seg, self.n_seg = seg, n_seg

    def __iter__(self):
        for k in range(self.n_seg):
            chunk = self.lanes[:, k * self.seg:(k + 1) * self.seg + 1]
            yield torch.from_numpy(chunk[:, :-1]).long(), torch.from_numpy(chunk[:, 1:]).long()


class MemoryAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h, self.dk = heads, d // heads
        self.q = nn.Linear(d, d, bias=False)
        self.kv = nn.Linear(d, 2 * d, bias=False)
        self.o = nn.Linear(d, d)
        self.register_buffer("slopes", torch.tensor([2.0 ** -(i + 1) for i in range(heads)]))

    def forward(self, x, mem):
        ctx = x if mem is None else torch.cat([mem, x], dim=1)
        b, tq, d = x.shape
        tk = ctx.shape[1]
        q = self.q(x).view(b, tq, self.h, self.dk).transpose(1, 2)
        k, v = self.kv(ctx).view(b, tk, 2, self.h, self.dk).permute(2, 0, 3, 1, 4).unbind(0)
        qpos = torch.arange(tk - tq, tk, device=x.device)[:, None]
        dist = qpos - torch.arange(tk, device=x.device)[None, :]
        bias = -self.slopes[:, None, None] * dist.clamp(min=0)
        att = q @ k.transpose(-1, -2) / math.sqrt(self.dk) + bias
        att = att.masked_fill(dist < 0, -1e9).softmax(-1)
        return self.o((att @ v).transpose(1, 2).reshape(b, tq, d))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = MemoryAttention(d, heads)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, mem):
        x = x + self.att(self.n1(x), None if mem is None else self.n1(mem))
        return x + self.ff(self.n2(x))


class MusicXL(nn.Module):
    def __init__(self, mem_len):
        super().__init__()
        self.mem_len = mem_len
        self.emb = nn.Embedding(VOCAB, D)
        self.blocks = nn.ModuleList(Block(D, HEADS) for _ in range(LAYERS))
        self.out = nn.Linear(D, VOCAB)

    def _update_mems(self, hids, mems):
        with torch.no_grad():
            new = []
            for i, h in enumerate(hids):
                full = h if mems is None else torch.cat([mems[i], h], dim=1)
                beg = max(0, full.shape[0] - self.mem_len)
                new.append(full[beg:].detach())
            return new

    def forward(self, tokens, mems=None):
        x, hids = self.emb(tokens), []
        for i, block in enumerate(self.blocks):
            hids.append(x)
            x = block(x, None if mems is None else mems[i])
        return self.out(x), self._update_mems(hids, mems)


@torch.no_grad()
def sample(model, prompt, n, temperature=0.9):
    """Fill a fixed window from the left; the write position lives on the device."""
    model.eval()
    window = torch.zeros(prompt.shape[0], SEG, dtype=torch.long, device=prompt.device)
    window[:, :4] = prompt
    pos = torch.tensor([3], device=prompt.device)
    torch_xla.sync()
    for _ in range(n):
        logits, _ = model(window)
        last = logits.index_select(1, pos)[:, 0] / temperature
        gumbel = -torch.log(-torch.log(torch.rand_like(last).clamp(1e-6, 1 - 1e-6)))
        pos = pos + 1
        window = window.index_copy(1, pos, (last + gumbel).argmax(-1, keepdim=True))
        torch_xla.sync()
    model.train()
    return window.cpu()


def main():
    random.seed(3)
    torch.manual_seed(3)
    device = torch_xla.device()
    model = MusicXL(MEM_LEN).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.3, weight_decay=1e-4)
    mems, losses = None, []
    for step, (x, y) in enumerate(StreamingTunes(BATCH, SEG, STEPS, seed=11)):
        x, y = x.to(device), y.to(device)
        opt.zero_grad(set_to_none=True)
        logits, mems = model(x, mems)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        torch_xla.sync()
        losses.append(loss.detach())
        if (step + 1) % SAMPLE_EVERY == 0:
            notes = sample(model, x[:, :4], SEG - 4)
            mean = torch.stack(losses[-SAMPLE_EVERY:]).mean().item()
            print(f"step {step + 1} loss {mean:.3f} sample {notes[0].tolist()}")


if __name__ == "__main__":
    main()
