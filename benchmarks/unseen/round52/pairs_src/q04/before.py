"""Set transformer that names a compound class from the peaks (m/z, intensity) of a mass spectrum."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DIM, HEADS, CLASSES, PEAKS, BATCH = 12, 3, 5, 7, 4
SMOOTHING = 0.1


class SetAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, query, keys, mask):
        b, n, d = query.shape
        m = keys.shape[1]
        q = self.q(query).view(b, n, self.heads, d // self.heads)
        k = self.k(keys).view(b, m, self.heads, d // self.heads)
        v = self.v(keys).view(b, m, self.heads, d // self.heads)
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(~mask[:, None, None, :], -1e9)
        att = torch.softmax(scores, dim=-1)
        mixed = torch.einsum("bhnm,bmhd->bnhd", att, v).reshape(b, n, d)
        return self.out(mixed)


class SpectrumClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(2, DIM)
        self.sab = SetAttention(DIM, HEADS)
        self.norm = nn.LayerNorm(DIM)
        self.seed = nn.Parameter(torch.randn(1, 1, DIM) * 0.1)
        self.pool = SetAttention(DIM, HEADS)
        self.head = nn.Linear(DIM, CLASSES)

    def forward(self, peaks, mask):
        mz = peaks[..., :1] / 1000.0
        inten = torch.log1p(peaks[..., 1:])
        x = F.relu(self.embed(torch.cat([mz, inten], dim=-1)))
        x = self.norm(x + self.sab(x, x, mask))
        seed = self.seed.expand(x.shape[0], -1, -1)
        pooled = self.pool(seed, x, mask)[:, 0]
        return self.head(pooled)


def loss_fn(logits, target):
    logp = torch.log_softmax(logits, dim=-1)
    nll = -logp.gather(1, target[:, None]).squeeze(1)
    uniform = -logp.mean(dim=-1)
    return ((1.0 - SMOOTHING) * nll + SMOOTHING * uniform).mean()


def train(steps=4, dump=None, dump_at=3):
    torch.manual_seed(3)
    device = torch_xla.device()
    model = SpectrumClassifier()
    data = []
    for _ in range(steps):
        peaks = torch.rand(BATCH, PEAKS, 2) * 500
        count = torch.randint(3, PEAKS + 1, (BATCH, 1))
        data.append((peaks, torch.arange(PEAKS)[None] < count, torch.randint(CLASSES, (BATCH,))))
    model.to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
    losses = []
    for step, batch in enumerate(data, start=1):
        peaks, mask, target = (x.to(device) for x in batch)
        opt.zero_grad()
        loss = loss_fn(model(peaks, mask), target)
        loss.backward()
        opt.step()
        if dump and step == dump_at:
            live = [loss.detach()]
            for p in model.parameters():
                live += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(dump, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(train(dump=sys.argv[1] if len(sys.argv) > 1 else None))
