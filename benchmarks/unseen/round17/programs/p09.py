"""Tagging of maintenance notes, in two stages.

Stage A trains only the tag head on a random encoder, stage B starts from the
checkpoint of stage A and trains everything with a smaller rate. Notes are
sorted into four length buckets and padded to the bucket's border.
"""
import os
import random
import tempfile
from typing import Dict, Iterator, List, Tuple

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

BORDERS = (8, 12, 16, 24)
VOCAB, TAGS, PAD = 60, 5, 0


class Notes(torch.utils.data.IterableDataset):
    """Ready-made batches: every batch holds notes of one bucket only."""

    def __init__(self, batches: int, size: int, seed: int):
        self.batches, self.size, self.seed = batches, size, seed

    def note(self, rng: random.Random) -> Tuple[List[int], List[int]]:
        n = rng.randint(4, BORDERS[-1])
        words = [rng.randint(1, VOCAB - 1) for _ in range(n)]
        tags = [(w + (words[i - 1] if i else 0)) % 2 + 2 * (w % 2) for i, w in enumerate(words)]
        return words, tags

    def __iter__(self) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
        rng = random.Random(self.seed)
        bins: Dict[int, list] = {b: [] for b in BORDERS}
        made = 0
        while made < self.batches:
            words, tags = self.note(rng)
            border = next(b for b in BORDERS if len(words) <= b)
            bins[border].append((words, tags))
            if len(bins[border]) == self.size:
                yield self.pad(bins.pop(border), border)
                bins[border] = []
                made += 1

    @staticmethod
    def pad(rows, border):
        x = torch.full((len(rows), border), PAD)
        y = torch.full((len(rows), border), -100)
        for i, (words, tags) in enumerate(rows):
            x[i, :len(words)] = torch.tensor(words)
            y[i, :len(tags)] = torch.tensor(tags)
        return x, y


class Tagger(nn.Module):
    def __init__(self, width: int = 24):
        super().__init__()
        self.words = nn.Embedding(VOCAB, width, padding_idx=PAD)
        self.places = nn.Embedding(BORDERS[-1], width)
        self.left = nn.Linear(width, width)
        self.here = nn.Linear(width, width)
        self.head = nn.Linear(width, TAGS)

    def forward(self, x):
        e = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        before = torch.cat([torch.zeros_like(e[:, :1]), e[:, :-1]], dim=1)
        return self.head(torch.tanh(self.here(e) + self.left(before)))


def make_optimizer(model: Tagger, lr: float):
    live = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(live, lr=lr, weight_decay=1e-3)


def run_stage(name, model, opt, device, batches, seed):
    loss_fn = nn.CrossEntropyLoss(ignore_index=-100)
    loader = torch.utils.data.DataLoader(Notes(batches, 16, seed), batch_size=None)
    for step, (x, y) in enumerate(pl.MpDeviceLoader(loader, device)):
        opt.zero_grad()
        loss = loss_fn(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        xm.optimizer_step(opt)
        if step % 10 == 9:
            xm.add_step_closure(lambda s, l: print(f"{name} {s:3d} loss {l.item():.4f}"),
                                args=(step, loss.detach()))
    return evaluate(model, device)


@torch.no_grad()
def evaluate(model, device):
    model.eval()
    good = torch.zeros((), device=device)
    seen = torch.zeros((), device=device)
    loader = torch.utils.data.DataLoader(Notes(8, 16, 500), batch_size=None)
    for x, y in pl.MpDeviceLoader(loader, device):
        good += (model(x).argmax(-1) == y).sum()
        seen += (y >= 0).sum()
    model.train()
    return good.item() / seen.item()


def main():
    torch.manual_seed(9)
    device = torch_xla.device()
    path = os.path.join(tempfile.mkdtemp(prefix="notes_"), "stage_a.pt")

    model = Tagger().to(device)
    for p in model.parameters():
        p.requires_grad_(False)
    model.head.requires_grad_(True)
    acc = run_stage("A", model, make_optimizer(model, 1e-2), device, 40, seed=1)
    print(f"stage A accuracy {acc:.3f}")
    xm.save(model.state_dict(), path)

    model = Tagger()
    model.load_state_dict(torch.load(path, weights_only=True))
    model = model.to(device)
    acc = run_stage("B", model, make_optimizer(model, 3e-3), device, 60, seed=2)
    print(f"stage B accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
