"""seq2seq with a mean context: reverse a digit string."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla as xla


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--vocab", type=int, default=14)
    ap.add_argument("--emb", type=int, default=12)
    ap.add_argument("--hid", type=int, default=16)
    ap.add_argument("--src-len", type=int, default=3)
    ap.add_argument("--tgt-len", type=int, default=3)
    ap.add_argument("--batch", type=int, default=6)
    ap.add_argument("--tf-ratio", type=float, default=0.75)
    ap.add_argument("--iters", type=int, default=10)
    ap.add_argument("--seed", type=int, default=11)
    return ap.parse_args()


class GRUCell(nn.Module):
    def __init__(self, i, h):
        super().__init__()
        self.x2h = nn.Linear(i, 3 * h)
        self.h2h = nn.Linear(h, 3 * h)

    def forward(self, x, h):
        xr, xz, xn = self.x2h(x).chunk(3, -1)
        hr, hz, hn = self.h2h(h).chunk(3, -1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return n + z * (h - n)


class Seq2Seq(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.hid = a.hid
        self.emb = nn.Embedding(a.vocab, a.emb)
        self.enc = GRUCell(a.emb, a.hid)
        self.dec = GRUCell(a.emb + a.hid, a.hid)
        self.proj = nn.Linear(2 * a.hid, a.vocab)

    def encode(self, src):
        h = torch.zeros(src.size(0), self.hid, device=src.device)
        outs = []
        for t in range(src.size(1)):
            h = self.enc(self.emb(src[:, t]), h)
            outs.append(h)
        return torch.stack(outs, 1).mean(1), h

    def forward(self, src, tgt, tf_ratio):
        ctx, h = self.encode(src)
        inp = tgt[:, 0]
        logits = []
        for t in range(1, tgt.size(1)):
            h = self.dec(torch.cat([self.emb(inp), ctx], -1), h)
            out = self.proj(torch.cat([h, ctx], -1))
            logits.append(out)
            inp = tgt[:, t] if random.random() < tf_ratio else out.argmax(-1)
        return torch.stack(logits, 1)


def sample(a, rng):
    src = torch.tensor([[rng.randrange(2, a.vocab) for _ in range(a.src_len)] for _ in range(a.batch)])
    bos = torch.ones(a.batch, 1, dtype=torch.long)
    return src, torch.cat([bos, src.flip(1)[:, : a.tgt_len]], 1)


def run(a):
    random.seed(a.seed)
    torch.manual_seed(a.seed)
    rng = random.Random(a.seed + 1)
    dev = xla.device()
    model = Seq2Seq(a).to(dev)
    optim = torch.optim.RMSprop(model.parameters(), lr=5e-3, alpha=0.95)
    for it in range(a.iters):
        src, tgt = (t.to(dev) for t in sample(a, rng))
        out = model(src, tgt, a.tf_ratio)
        loss = F.cross_entropy(out.transpose(1, 2), tgt[:, 1:])
        optim.zero_grad()
        loss.backward()
        optim.step()
        xla.sync()
        print(it, loss.item())


if __name__ == "__main__":
    run(get_args())
