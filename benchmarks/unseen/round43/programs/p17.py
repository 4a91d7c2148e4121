"""Tagging clinical abbreviations with dilated convolutions and token-budget
gradient accumulation.

Micro-batches come in three widths and a fixed number of rows; an update is
made whenever the micro-batches since the last one hold enough real tokens, so
that every update sees about the same amount of text.
"""
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

WIDTHS = (12, 24, 48)
ROWS = 8
TOKEN_BUDGET = 360
TAGS = 7
VOCAB = 300
UPDATES = 15


def make_notes(n=900, seed=13):
    rng = random.Random(seed)
    notes = []
    for _ in range(n):
        length = min(WIDTHS[-1], max(4, int(rng.gammavariate(2.2, 8.0))))
        words = [rng.randrange(2, VOCAB) for _ in range(length)]
        tags = [(w * 5 + (words[i - 1] if i else 0)) % TAGS for i, w in enumerate(words)]
        notes.append((words, tags))
    return notes


class WidthBatcher:
    """Yields (ids, tags, n_tokens); every micro-batch has one of len(WIDTHS) shapes."""

    def __init__(self, notes, seed):
        self.notes = notes
        self.rng = random.Random(seed)

    def __iter__(self):
        waiting = defaultdict(list)
        while True:
            order = list(range(len(self.notes)))
            self.rng.shuffle(order)
            for i in order:
                words, tags = self.notes[i]
                width = next(w for w in WIDTHS if len(words) <= w)
                waiting[width].append((words, tags))
                if len(waiting[width]) == ROWS:
                    yield self.collate(waiting.pop(width), width)

    @staticmethod
    def collate(rows, width):
        ids = torch.zeros(ROWS, width, dtype=torch.long)
        gold = torch.full((ROWS, width), -100, dtype=torch.long)
        for r, (words, tags) in enumerate(rows):
            ids[r, :len(words)] = torch.tensor(words)
            gold[r, :len(tags)] = torch.tensor(tags)
        return ids, gold, int((gold >= 0).sum())


class DilatedTagger(nn.Module):
    def __init__(self, dim=32, dilations=(1, 3)):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.convs = nn.ModuleList(
            nn.Conv1d(dim, 2 * dim, 3, padding=d, dilation=d) for d in dilations)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in dilations)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(dim, TAGS)

    def forward(self, ids):
        keep = (ids != 0).unsqueeze(-1)
        x = self.emb(ids)
        for conv, norm in zip(self.convs, self.norms):
            h = norm(x) * keep
            a, g = conv(h.transpose(1, 2)).chunk(2, dim=1)
            x = x + self.drop((a * torch.sigmoid(g)).transpose(1, 2))
        return self.out(x)


class Trainer:
    def __init__(self, model, device, lr=2e-3):
        self.model = model
        self.device = device
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
        self.sched = torch.optim.lr_scheduler.LambdaLR(
            self.opt, lambda s: min(1.0, (s + 1) / 5))

    def accumulate(self, ids, gold):
        logits = self.model(ids.to(self.device))
        loss = F.cross_entropy(logits.flatten(0, 1), gold.to(self.device).flatten(),
                               ignore_index=-100, reduction="sum")
        (loss / TOKEN_BUDGET).backward()
        return loss.detach()

    def update(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.sched.step()
        self.opt.zero_grad(set_to_none=False)

    def run(self, batches, updates):
        self.model.train()
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)
        torch_xla.sync()

        tokens, done, micro = 0, 0, 0
        total = torch.zeros((), device=self.device)
        for ids, gold, n in batches:
            total = total + self.accumulate(ids, gold)
            tokens += n
            micro += 1
            if tokens < TOKEN_BUDGET:
                continue

            self.update()
            torch_xla.sync()
            done += 1
            if done % 3 == 0:
                print(f"update {done:3d} micro-batches {micro} tokens {tokens} "
                      f"loss/token {total.item() / tokens:.4f}")
            total = torch.zeros((), device=self.device)
            tokens, micro = 0, 0
            if done == updates:
                break


def main():
    torch.manual_seed(29)
    device = torch_xla.device()
    model = DilatedTagger().to(device)
    batches = WidthBatcher(make_notes(), seed=29)
    Trainer(model, device).run(batches, UPDATES)


if __name__ == "__main__":
    main()
