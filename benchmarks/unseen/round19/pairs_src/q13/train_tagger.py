"""GRU-free sequence tagger (gated conv), bucketed lengths, EMA of the weights."""
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BUCKETS = (12, 12, 20, 12, 12, 20, 12, 20)


class GLUBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.conv = nn.Conv1d(d, 2 * d, 3, padding=1)

    def forward(self, x):
        h = self.conv(self.norm(x).transpose(1, 2)).transpose(1, 2)
        a, b = h.chunk(2, -1)
        return x + a * b.sigmoid()


class Tagger(nn.Module):
    def __init__(self, vocab=60, d=24, tags=7):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        self.body = nn.Sequential(GLUBlock(d), GLUBlock(d))
        self.out = nn.Linear(d, tags)

    def forward(self, ids):
        return self.out(self.body(self.emb(ids)))


@torch.no_grad()
def ema_update(ema, model, decay=0.98):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.mul_(decay).add_(p, alpha=1 - decay)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--ema-every", type=int, default=3)
    ap.add_argument("--pad-to", type=int, default=0)
    a = ap.parse_args()
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = Tagger().to(dev)
    ema = copy.deepcopy(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    torch_xla.sync()
    for n, length in enumerate(BUCKETS, 1):
        ids = torch.randint(1, 60, (6, length))
        tags = ids % 7
        if a.pad_to:
            ids = F.pad(ids, (0, a.pad_to - length))
            tags = F.pad(tags, (0, a.pad_to - length), value=-100)
        loss = F.cross_entropy(model(ids.to(dev)).flatten(0, 1), tags.to(dev).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if n % a.ema_every == 0:
            ema_update(ema, model)
        torch_xla.sync()
        print(n, length, loss.item())


if __name__ == "__main__":
    main()
