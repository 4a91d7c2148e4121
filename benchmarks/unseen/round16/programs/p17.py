"""Next-note model for folk melodies: tunes are put into length buckets, batches
are accumulated, and each epoch closes with a validation pass."""
import dataclasses
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset, Sampler

PAD, NOTES = 0, 30


@dataclasses.dataclass
class Options:
    buckets: tuple = (16, 24, 32)
    batch_size: int = 8
    accumulate: int = 3
    dim: int = 24
    epochs: int = 3
    peak_lr: float = 4e-3
    clip: float = 1.0


class Tunes(Dataset):
    def __init__(self, n, seed, max_len):
        rng = random.Random(seed)
        self.tunes = []
        for _ in range(n):
            note, tune = rng.randint(5, 25), []
            for _ in range(rng.randint(9, max_len)):
                note = min(NOTES - 1, max(1, note + rng.choice((-2, -1, 0, 1, 2, 4, -4))))
                tune.append(note)
            self.tunes.append(tune)

    def __len__(self):
        return len(self.tunes)

    def __getitem__(self, i):
        return self.tunes[i]


class BucketBatches(Sampler):
    """Full batches of tunes that share a bucket, in random order."""

    def __init__(self, data, opts, seed):
        self.groups = {b: [] for b in opts.buckets}
        for i in range(len(data)):
            self.groups[bucket_of(len(data[i]), opts.buckets)].append(i)
        self.size = opts.batch_size
        self.rng = random.Random(seed)

    def __iter__(self):
        batches = []
        for members in self.groups.values():
            members = self.rng.sample(members, len(members))
            full = len(members) - len(members) % self.size
            batches += [members[k:k + self.size] for k in range(0, full, self.size)]
        self.rng.shuffle(batches)
        return iter(batches)

    def __len__(self):
        return sum(len(m) // self.size for m in self.groups.values())


def bucket_of(n, buckets):
    return next(b for b in buckets if n <= b)


class PadToBucket:
    def __init__(self, buckets):
        self.buckets = buckets

    def __call__(self, tunes):
        width = bucket_of(max(map(len, tunes)), self.buckets)
        out = torch.full((len(tunes), width), PAD)
        for row, tune in zip(out, tunes):
            row[:len(tune)] = torch.tensor(tune)
        return out


class MelodyModel(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.emb = nn.Embedding(NOTES, dim, padding_idx=PAD)
        self.conv = nn.ModuleList([nn.Conv1d(dim, dim, 3, dilation=2 ** i) for i in range(3)])
        self.out = nn.Linear(dim, NOTES)

    def forward(self, notes):
        x = self.emb(notes).transpose(1, 2)
        for conv in self.conv:
            left = (conv.kernel_size[0] - 1) * conv.dilation[0]
            x = x + F.gelu(conv(F.pad(x, (left, 0))))
        return self.out(x.transpose(1, 2))


def next_note_loss(model, notes):
    logits = model(notes[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), notes[:, 1:].flatten(), ignore_index=PAD)


def validate(model, loader, device):
    model.eval()
    total, count = torch.zeros((), device=device), 0
    torch_xla.sync()
    with torch.no_grad():
        for notes in loader:
            total += next_note_loss(model, notes)
            count += 1
            torch_xla.sync()
    model.train()
    return total.item() / count


def main():
    opts = Options()
    torch.manual_seed(1)
    device = torch_xla.device()
    train, val = Tunes(260, 1, opts.buckets[-1]), Tunes(64, 2, opts.buckets[-1])
    pad = PadToBucket(opts.buckets)

    def feed(data, seed):
        loader = DataLoader(data, batch_sampler=BucketBatches(data, opts, seed), collate_fn=pad)
        return loader, pl.MpDeviceLoader(loader, device)

    train_loader, train_feed = feed(train, 3)
    val_loader, val_feed = feed(val, 4)
    model = MelodyModel(opts.dim).to(device)
    updates = opts.epochs * (len(train_loader) // opts.accumulate)
    opt = torch.optim.AdamW(model.parameters(), lr=opts.peak_lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, opts.peak_lr, total_steps=updates + 1)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    torch_xla.sync()

    for epoch in range(opts.epochs):
        running = torch.zeros((), device=device)
        torch_xla.sync()
        usable = len(train_loader) - len(train_loader) % opts.accumulate
        for i, notes in enumerate(train_feed, 1):
            if i > usable:
                continue
            loss = next_note_loss(model, notes) / opts.accumulate
            loss.backward()
            running += loss.detach()
            torch_xla.sync()
            if i % opts.accumulate == 0:
                nn.utils.clip_grad_norm_(model.parameters(), opts.clip)
                opt.step()
                opt.zero_grad(set_to_none=False)
                sched.step()
                torch_xla.sync()
        train_loss = running.item() * opts.accumulate / usable
        print(f"epoch {epoch}: train {train_loss:.3f}  val {validate(model, val_feed, device):.3f}"
              f"  lr {sched.get_last_lr()[0]:.1e}")


if __name__ == "__main__":
    main()
