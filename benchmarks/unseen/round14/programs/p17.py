"""Travel-mode classification (walk / bike / bus / rail) from GPS traces.

Traces differ in length by a factor of eight.  They are sorted into a few length
classes, every class with its own batch size so that a batch always holds about
the same number of points.
"""
import argparse
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

MODES = ("walk", "bike", "bus", "rail")
SPEED = (1.4, 4.5, 7.0, 20.0)
CLASSES = {16: 32, 32: 16, 64: 8, 128: 4}  # padded length -> traces per batch


def simulate_trace(gen, rng):
    mode = rng.randrange(len(MODES))
    length = min(127, max(9, int(rng.lognormvariate(3.4, 0.6))))
    speed = SPEED[mode] * (0.7 + 0.6 * torch.rand(length, generator=gen))
    if mode == 2:  # buses stop
        speed = speed * (torch.rand(length, generator=gen) > 0.3)
    turn = torch.randn(length, generator=gen) * (0.4 if mode < 2 else 0.1)
    heading = turn.cumsum(0)
    return torch.stack([speed / 10, heading.cos(), heading.sin(), turn.abs()], dim=0), mode


class LengthClassSampler:
    """Batches of indices, all traces of a batch in the same length class."""

    def __init__(self, lengths, rng=None):
        self.rng = rng
        self.members = defaultdict(list)
        for i, n in enumerate(lengths):
            self.members[min(b for b in CLASSES if n <= b)].append(i)

    def __iter__(self):
        batches = []
        for bound, index in self.members.items():
            index = list(index)
            if self.rng:
                self.rng.shuffle(index)
            size = CLASSES[bound]
            batches += [(bound, index[k : k + size])
                        for k in range(0, len(index) - size + 1, size)]
        if self.rng:
            self.rng.shuffle(batches)
        return iter(batches)


def collate(traces, bound):
    x = torch.zeros(len(traces), 4, bound)
    mask = torch.zeros(len(traces), 1, bound)
    for row, (points, _) in enumerate(traces):
        x[row, :, : points.shape[1]] = points
        mask[row, :, : points.shape[1]] = 1.0
    return x, mask, torch.tensor([mode for _, mode in traces])


class TraceNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.conv1 = nn.Conv1d(4, width, 5, padding=2)
        self.conv2 = nn.Conv1d(width, width, 5, padding=2)
        self.score = nn.Conv1d(width, 1, 1)
        self.out = nn.Linear(2 * width, len(MODES))

    def forward(self, x, mask):
        h = F.relu(self.conv1(x)) * mask
        h = F.relu(self.conv2(h)) * mask
        att = self.score(h).masked_fill(mask == 0, -1e4).softmax(dim=-1)
        pooled = torch.cat([(h * att).sum(-1), h.sum(-1) / mask.sum(-1)], dim=1)
        return self.out(pooled)


class Classifier:
    def __init__(self, lr, momentum=0.9):
        self.device = torch_xla.device()
        self.net = TraceNet().to(self.device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=lr, momentum=momentum)

    def batch(self, traces, bound):
        return tuple(t.to(self.device) for t in collate(traces, bound))

    def fit_batch(self, traces, bound):
        x, mask, mode = self.batch(traces, bound)
        with torch_xla.step():
            self.opt.zero_grad()
            loss = F.cross_entropy(self.net(x, mask), mode)
            loss.backward()
            self.opt.step()
        return loss

    @torch.no_grad()
    def evaluate(self, traces, sampler):
        hits = 0
        total = 0
        for bound, index in sampler:
            x, mask, mode = self.batch([traces[i] for i in index], bound)
            with torch_xla.step():
                right = (self.net(x, mask).argmax(1) == mode).sum()
            hits += right.item()
            total += len(index)
        return hits / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--traces", type=int, default=210)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--lr", type=float, default=0.05)
    args = ap.parse_args()

    torch.manual_seed(17)
    rng, gen = random.Random(17), torch.Generator().manual_seed(17)
    train = [simulate_trace(gen, rng) for _ in range(args.traces)]
    held_out = [simulate_trace(gen, rng) for _ in range(120)]
    train_batches = LengthClassSampler([p.shape[1] for p, _ in train], rng)
    eval_batches = LengthClassSampler([p.shape[1] for p, _ in held_out])

    model = Classifier(args.lr)
    for epoch in range(args.epochs):
        losses = [model.fit_batch([train[i] for i in index], bound)
                  for bound, index in train_batches]
        mean = torch.stack([l.detach().cpu() for l in losses]).mean()
        acc = model.evaluate(held_out, eval_batches)
        print(f"epoch {epoch + 1}: {len(losses)} batches, loss {mean:.3f}, held-out {acc:.3f}")


if __name__ == "__main__":
    main()
