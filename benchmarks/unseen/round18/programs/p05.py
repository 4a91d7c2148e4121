"""Intent classifier for help-desk messages.

Messages are grouped into three length buckets, every optimizer step sees two
micro-batches of the same bucket.  The job is preemptible: it saves itself after
every epoch and continues from the last checkpoint when it finds one.
"""
import logging
import os
import tempfile
from typing import Iterator, List, Tuple

import numpy as np
import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

logger = logging.getLogger("intents")
logger.addHandler(logging.StreamHandler())
logger.setLevel(logging.INFO)
logger.propagate = False

VOCAB, INTENTS, PAD = 120, 6, 0
BUCKETS = (8, 16, 24)
MICRO_BATCH, ACCUMULATE = 16, 2


class HelpDesk:
    """Synthetic corpus; each intent prefers its own part of the vocabulary."""

    def __init__(self, n: int, seed: int):
        rng = np.random.default_rng(seed)
        self.samples: List[Tuple[np.ndarray, int]] = []
        for _ in range(n):
            y = int(rng.integers(INTENTS))
            length = int(rng.integers(3, BUCKETS[-1] + 1))
            own = rng.integers(1 + y * 15, 16 + y * 15, length)
            noise = rng.integers(1, VOCAB, length)
            self.samples.append((np.where(rng.random(length) < 0.35, own, noise), y))


class BucketedBatches:
    """Padded micro-batches; runs of ACCUMULATE of them come from one bucket."""

    def __init__(self, corpus: HelpDesk, seed: int):
        self.rng = np.random.default_rng(seed)
        self.by_bucket = {b: [] for b in BUCKETS}
        for tokens, y in corpus.samples:
            bucket = next(b for b in BUCKETS if len(tokens) <= b)
            row = np.full(bucket, PAD)
            row[:len(tokens)] = tokens
            self.by_bucket[bucket].append((row, y))

    def __iter__(self) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
        chunk = MICRO_BATCH * ACCUMULATE
        plan = []
        for b, rows in self.by_bucket.items():
            order = self.rng.permutation(len(rows))
            plan += [(b, order[i:i + chunk]) for i in range(0, len(order) - chunk + 1, chunk)]
        self.rng.shuffle(plan)
        for b, take in plan:
            for k in range(ACCUMULATE):
                part = [self.by_bucket[b][j] for j in take[k * MICRO_BATCH:(k + 1) * MICRO_BATCH]]
                yield (torch.tensor(np.stack([r for r, _ in part])),
                       torch.tensor([y for _, y in part]))


class IntentNet(nn.Module):
    def __init__(self, dim: int = 24):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.att = nn.Linear(dim, 1)
        self.ffn = nn.Sequential(nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, INTENTS))

    def forward(self, ids):
        e = self.emb(ids)
        a = self.att(e).squeeze(-1).masked_fill(ids == PAD, -1e4).softmax(-1)
        return self.ffn((a.unsqueeze(-1) * e).sum(1))


class Job:
    def __init__(self, workdir: str, device):
        self.path = os.path.join(workdir, "last.pt")
        self.device = device
        torch.manual_seed(4)
        self.net = IntentNet().to(device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.3, momentum=0.9, weight_decay=1e-4)
        self.epoch = 0
        if os.path.exists(self.path):
            state = torch.load(self.path)
            self.net.load_state_dict(state["net"])
            self.opt.load_state_dict(state["opt"])
            self.epoch = state["epoch"]
            logger.info("continuing after epoch %d", self.epoch)

    def save(self):
        xm.save({"net": self.net.state_dict(), "opt": self.opt.state_dict(),
                 "epoch": self.epoch}, self.path)

    def train_epoch(self, batches: BucketedBatches):
        self.net.train()
        losses = []
        for i, (ids, y) in enumerate(pl.MpDeviceLoader(batches, self.device)):
            loss = nn.functional.cross_entropy(self.net(ids), y) / ACCUMULATE
            loss.backward()
            losses.append(loss.detach())
            if (i + 1) % ACCUMULATE == 0:
                self.opt.step()
                self.opt.zero_grad()
        self.epoch += 1
        self.opt.param_groups[0]["lr"] *= 0.8
        return ACCUMULATE * float(np.mean([v.item() for v in losses]))

    @torch.no_grad()
    def accuracy(self, batches: BucketedBatches):
        self.net.eval()
        hits, n = [], 0
        for ids, y in pl.MpDeviceLoader(batches, self.device):
            hits.append((self.net(ids).argmax(-1) == y).sum())
            n += len(y)
        return sum(h.item() for h in hits) / n


def main():
    device = torch_xla.device()
    train = BucketedBatches(HelpDesk(460, seed=1), seed=5)
    valid = BucketedBatches(HelpDesk(220, seed=2), seed=6)
    with tempfile.TemporaryDirectory() as workdir:
        for attempt in range(2):
            job = Job(workdir, device)
            for _ in range(2):
                loss = job.train_epoch(train)
                acc = job.accuracy(valid)
                logger.info("attempt %d epoch %d: loss %.3f, accuracy %.3f",
                            attempt, job.epoch, loss, acc)
                job.save()


if __name__ == "__main__":
    main()
