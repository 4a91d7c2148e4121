"""Set transformer that names a compound class from the peaks (m/z, intensity) of a mass spectrum."""
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
        self.scale = (dim // heads) ** -0.5
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, query, keys, mask):
        q = self._split(self.q(query))
        k = self._split(self.k(keys))
        v = self._split(self.v(keys))
        scores = torch.matmul(q, k.transpose(-2, -1)) * self.scale
        scores = torch.where(mask[:, None, None, :], scores, scores.new_full((), -1e9))
        mixed = torch.matmul(scores.softmax(dim=-1), v)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


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
        mz, inten = peaks.unbind(dim=-1)
        x = F.relu(self.embed(torch.stack([mz / 1000.0, inten.log1p()], dim=-1)))
        x = self.norm(x + self.sab(x, x, mask))
        seed = self.seed.expand(x.shape[0], -1, -1)
        pooled = self.pool(seed, x, mask)[:, 0]
        return self.head(pooled)


def loss_fn(logits, target):
    return F.cross_entropy(logits, target, label_smoothing=SMOOTHING)


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
