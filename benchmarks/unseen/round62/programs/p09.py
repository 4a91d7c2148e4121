"""Character-level date normalisation ('3 March 1987' -> '1987-03-03') with a
deep token-mixing network."""
import datetime
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

FORMATS = ['%d %B %Y', '%B %d, %Y', '%d/%m/%Y', '%d.%m.%y', '%a %d %b %Y',
           "%b %d '%y", 'the %dth of %B %Y']
SRC_LEN = 28
TGT_LEN = 12
BATCH = 8
STEPS = 28
EVAL_EVERY = 7
PAD, EOS = 1, 2


class Alphabet:

    def __init__(self):
        chars = sorted({c for c in "abcdefghijklmnopqrstuvwxyz0123456789 ,./-'"})
        self.index = {c: i + 3 for i, c in enumerate(chars)}

    def __len__(self):
        return len(self.index) + 3

    def encode(self, text, length):
        ids = [self.index[c] for c in text.lower()][:length - 1] + [EOS]
        return ids + [PAD] * (length - len(ids))


class Dates(Dataset):

    def __init__(self, alphabet, n, seed):
        rng = np.random.default_rng(seed)
        first = datetime.date(1950, 1, 1).toordinal()
        self.items = []
        for off, k in zip(rng.integers(0, 30000, n), rng.integers(0, len(FORMATS), n)):
            day = datetime.date.fromordinal(first + int(off))
            self.items.append((alphabet.encode(day.strftime(FORMATS[k]), SRC_LEN),
                               alphabet.encode(day.isoformat(), TGT_LEN)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        src, tgt = map(torch.tensor, self.items[i])
        return {'src': src, 'tgt': tgt.masked_fill(tgt == PAD, -100)}


class MixBlock(nn.Module):

    def __init__(self, dim, length):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.time = nn.Linear(length, length)
        self.chan = nn.Linear(dim, dim)

    def forward(self, x):
        h = self.time(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return self.chan(F.relu(h))


class DateReader(nn.Module):

    def __init__(self, vocab, dim=32, depth=6, drop=0.3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList([MixBlock(dim, SRC_LEN) for _ in range(depth)])
        self.survival = [1 - drop * (i + 1) / depth for i in range(depth)]
        self.slots = nn.Linear(SRC_LEN, TGT_LEN)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        for block, keep in zip(self.blocks, self.survival):
            if self.training:
                if random.random() > keep:
                    continue
                x = x + block(x) / keep
            else:
                x = x + block(x)
        x = self.slots(x.transpose(1, 2)).transpose(1, 2)
        return self.head(x)


def param_groups(model, wd):
    decay, rest = [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        (decay if p.ndim > 1 and 'norm' not in name else rest).append(p)
    return [{'params': decay, 'weight_decay': wd},
            {'params': rest, 'weight_decay': 0.0}]


def cycle(loader):
    while True:
        yield from loader


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    hits = torch.zeros((), device=device)
    total = torch.zeros((), device=device)
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        logits = model(batch['src'])
        valid = batch['tgt'] >= 0
        hits += ((logits.argmax(-1) == batch['tgt']) & valid).sum()
        total += valid.sum()
        torch_xla.sync()
    model.train()
    return (hits / total).item()


def main(seed=42):
    random.seed(seed)
    torch.manual_seed(seed)
    np.random.seed(seed)
    device = torch_xla.device()
    alphabet = Alphabet()

    train_loader = DataLoader(Dates(alphabet, 200, seed), BATCH, shuffle=True,
                              drop_last=True)
    valid_loader = DataLoader(Dates(alphabet, 32, seed + 1), BATCH)

    model = DateReader(len(alphabet)).to(device).train()
    opt = torch.optim.SGD(param_groups(model, 1e-4), lr=0.1, momentum=0.9)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 0.2, 1.0, total_iters=6)
    torch_xla.sync()

    window = []
    batches = cycle(train_loader)
    for step in range(1, STEPS + 1):
        batch = {k: v.to(device) for k, v in next(batches).items()}
        logits = model(batch['src'])
        loss = F.cross_entropy(logits.flatten(0, 1), batch['tgt'].flatten(),
                               ignore_index=-100)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        opt.zero_grad()
        torch_xla.sync()
        window.append(loss.detach())

        if step % EVAL_EVERY == 0:
            mean = float(np.mean([v.item() for v in window]))
            window.clear()
            acc = evaluate(model, valid_loader, device)
            print(f'step {step:3d} loss {mean:.4f} char acc {acc:.3f}')


if __name__ == '__main__':
    main()
