"""Keyword spotting with a token budget per update.

Utterances come in three padded lengths. An update collects micro-batches until
at least FRAME_BUDGET frames were seen, so that long and short utterances weigh
the same; gradients are divided by the number of frames.
"""
import collections
import os
import tempfile

import numpy as np
import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm

LENGTHS = (8, 16, 32)
MICRO_BATCH = 6
FRAME_BUDGET = 340
UPDATES = 24
EVAL_AT = (8, 16, 24)
COEFFS = 10
WORDS = 5

Utterances = collections.namedtuple("Utterances", "frames words count")


class Corpus:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.prints = np.random.default_rng(99).normal(0, 1, (WORDS, COEFFS))

    def take(self, length=None):
        length = length or int(self.rng.choice(LENGTHS, p=(0.4, 0.35, 0.25)))
        words = self.rng.integers(0, WORDS, MICRO_BATCH)
        frames = self.rng.normal(0, 1, (MICRO_BATCH, length, COEFFS))
        frames += 0.6 * self.prints[words][:, None, :]
        return Utterances(torch.tensor(frames, dtype=torch.float32), torch.tensor(words), MICRO_BATCH * length)

    def budgeted(self, budget):
        got, frames = [], 0
        while frames < budget:
            got.append(self.take())
            frames += got[-1].count
        return got, frames


class Spotter(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.inp = nn.Linear(COEFFS, width)
        self.mid = nn.Linear(width, width)
        self.att = nn.Linear(width, 1)
        self.out = nn.Linear(width, WORDS)

    def forward(self, frames):
        h = torch.relu(self.inp(frames))
        h = h + torch.relu(self.mid(h))
        pooled = (self.att(h).softmax(1) * h).sum(1)
        return self.out(pooled)


def to_xla(u, device):
    return u._replace(frames=u.frames.to(device), words=u.words.to(device))


class Session:
    def __init__(self):
        torch.manual_seed(4)
        self.device = xm.xla_device()
        self.model = Spotter().to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        self.loss = nn.CrossEntropyLoss(reduction="sum")
        self.corpus, self.held_out = Corpus(7), Corpus(8)
        self.folder = tempfile.mkdtemp()
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)
        torch_xla.sync()

    def update(self):
        group, frames = self.corpus.budgeted(FRAME_BUDGET)
        total = torch.zeros((), device=self.device)
        for u in group:
            u = to_xla(u, self.device)
            per_frame = u.count / MICRO_BATCH / frames
            loss = self.loss(self.model(u.frames), u.words) * per_frame
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        torch_xla.sync()
        return total, len(group)

    def evaluate(self):
        self.model.eval()
        right = 0
        with torch.no_grad():
            for length in LENGTHS:
                u = self.held_out.take(length)
                guess = self.model(u.frames.to(self.device)).argmax(-1)
                torch_xla.sync()
                right += (guess.cpu() == u.words).sum().item()
        self.model.train()
        return right / (len(LENGTHS) * MICRO_BATCH)

    def save(self, n):
        xm.save(self.model.state_dict(), os.path.join(self.folder, f"spotter-{n}.pt"))


def main():
    session = Session()
    for n in range(1, UPDATES + 1):
        total, parts = session.update()
        if n % 4 == 0:
            print(f"update {n:3d}: loss {total.item():.4f} from {parts} micro-batches")
        if n in EVAL_AT:
            print(f"update {n:3d}: accuracy {session.evaluate():.3f}")
            session.save(n)


if __name__ == "__main__":
    main()
