"""Routing of support tickets: two-stage fine-tuning of a small text encoder.

Stage "head" trains the classifier on frozen features, stage "full" everything
with a lower rate and gradient accumulation.  Tickets are put into three length
buckets.  The state between the stages goes through a checkpoint on disk, as
the nightly job does it.
"""
import dataclasses
import itertools
import os
import random
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BUCKETS = (8, 16, 32)
VOCAB, QUEUES = 120, 5


@dataclasses.dataclass
class Stage:
    name: str
    updates: int
    lr: float
    accumulate: int
    train_encoder: bool


STAGES = [Stage("head", 24, 1e-2, 1, False), Stage("full", 20, 2e-3, 2, True)]


def make_ticket(rnd):
    n = rnd.choice([rnd.randint(3, 8), rnd.randint(9, 16), rnd.randint(17, 32)])
    queue = rnd.randrange(QUEUES)
    words = [rnd.randrange(1, VOCAB) if rnd.random() < 0.6 else 1 + queue * 20 + rnd.randrange(20)
             for _ in range(n)]
    return words, queue


class BucketBatches:
    """Endless batches, the buckets taken in turn so that none starves."""

    def __init__(self, count, batch, seed):
        rnd = random.Random(seed)
        self.batch, self.rnd = batch, rnd
        self.store = {b: [] for b in BUCKETS}
        for _ in range(count):
            words, queue = make_ticket(rnd)
            width = next(b for b in BUCKETS if len(words) <= b)
            self.store[width].append((words + [0] * (width - len(words)), queue))

    def __iter__(self):
        for width in itertools.cycle(BUCKETS):
            chosen = self.rnd.sample(self.store[width], self.batch)
            yield (torch.tensor([w for w, _ in chosen]), torch.tensor([q for _, q in chosen]))


class TicketEncoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.positions = nn.Parameter(0.02 * torch.randn(max(BUCKETS), dim))
        self.block = nn.TransformerEncoderLayer(dim, 2, 48, dropout=0.1, batch_first=True)

    def forward(self, ids):
        keep = (ids != 0).unsqueeze(-1).float()
        h = self.tokens(ids) + self.positions[: ids.shape[1]]
        h = self.block(h)
        return (h * keep).sum(1) / keep.sum(1)


class Router(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.encoder = TicketEncoder(dim)
        self.head = nn.Linear(dim, QUEUES)

    def forward(self, ids):
        return self.head(self.encoder(ids))


def save(model, path):
    xm.save(model.state_dict(), path)


def restore(path, device):
    model = Router()
    model.load_state_dict(torch.load(path))
    return model.to(device)


@torch.no_grad()
def accuracy(model, batches, device):
    model.eval()
    right = torch.zeros((), device=device)
    for ids, queue in batches:
        right += (model(ids.to(device)).argmax(-1) == queue.to(device)).float().mean()
        torch_xla.sync()
    model.train()
    return right.item() / len(batches)


def run_stage(stage, model, stream, checks, device):
    for p in model.encoder.parameters():
        p.requires_grad_(stage.train_encoder)
    active = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(active, lr=stage.lr)
    warm = torch.optim.lr_scheduler.LinearLR(opt, 0.25, 0.95, total_iters=6)
    for update in range(1, stage.updates + 1):
        for _ in range(stage.accumulate):
            ids, queue = next(stream)
            loss = F.cross_entropy(model(ids.to(device)), queue.to(device)) / stage.accumulate
            loss.backward()
            torch_xla.sync()
        nn.utils.clip_grad_norm_(active, 2.5)
        opt.step()
        opt.zero_grad(set_to_none=False)
        warm.step()
        torch_xla.sync()
        if update % 8 == 0:
            print(f"{stage.name}/{update}: loss {loss.item() * stage.accumulate:.4f} "
                  f"accuracy {accuracy(model, checks, device):.3f}")


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    stream = iter(BucketBatches(600, 16, seed=4))
    checks = list(itertools.islice(BucketBatches(300, 16, seed=8), 6))
    model = Router().to(device)
    with tempfile.TemporaryDirectory() as folder:
        for stage in STAGES:
            run_stage(stage, model, stream, checks, device)
            path = os.path.join(folder, f"{stage.name}.pt")
            save(model, path)
            model = restore(path, device)
    print(f"final accuracy {accuracy(model, checks, device):.3f}")


if __name__ == "__main__":
    main()
