"""Character model of folk tunes in ABC notation, trained on a token budget.

Tunes are padded to a common length; an update is taken once enough real
characters have been seen, and that amount is ramped up during training.
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NOTES = "CDEFGABcdefgab"
ALPHABET = "\0" + NOTES + "|:2/3zK \n"
STOI = {ch: i for i, ch in enumerate(ALPHABET)}
MAX_LEN = 64


class TuneBook:
    """Endless stream of made-up tunes with a heavy-tailed bar count."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def bar(self, root):
        out = []
        for _ in range(self.rng.randint(2, 4)):
            root = max(0, min(len(NOTES) - 1, root + self.rng.randint(-2, 2)))
            out.append(NOTES[root] + self.rng.choice(["", "", "2", "/2", "3"]))
        return "".join(out), root

    def tune(self):
        bars = 1 + int(self.rng.expovariate(0.35))
        root = self.rng.randrange(len(NOTES))
        parts = []
        for _ in range(bars):
            text, root = self.bar(root)
            parts.append(text)
        return "|:" + "|".join(parts) + ":|\n"

    def encode(self, text):
        ids = [STOI[c] for c in text][:MAX_LEN + 1]
        return ids + [0] * (MAX_LEN + 1 - len(ids))

    def batch(self, n):
        ids = torch.tensor([self.encode(self.tune()) for _ in range(n)])
        x, y = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
        return x, y, int((y != 0).sum())


class CausalConvLM(nn.Module):
    def __init__(self, dim=16, kernel=4, layers=1):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET), dim, padding_idx=0)
        self.kernel = kernel
        self.convs = nn.ModuleList(nn.Conv1d(dim, 2 * dim, kernel) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.head = nn.Linear(dim, len(ALPHABET))

    def forward(self, x):
        h = self.embed(x)
        for conv, norm in zip(self.convs, self.norms):
            z = F.pad(norm(h).transpose(1, 2), (self.kernel - 1, 0))
            value, gate = conv(z).chunk(2, dim=1)
            h = h + (value * torch.sigmoid(gate)).transpose(1, 2)
        return self.head(h)


class BudgetRamp:
    def __init__(self, first, last, updates):
        self.first, self.last, self.updates = first, last, updates

    def __call__(self, update):
        frac = min(1.0, update / max(1, self.updates - 1))
        return int(self.first + frac * (self.last - self.first))


def token_loss(model, x, y, budget):
    logits = model(x)
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=0, reduction="sum")
    return loss / budget


def main():
    torch.manual_seed(3)
    device = xm.xla_device()
    book = TuneBook(seed=8)

    updates = 25
    ramp = BudgetRamp(first=80, last=1000, updates=updates)
    model = CausalConvLM().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=5)

    seen = 0
    model.train()
    for update in range(updates):
        budget = ramp(update)
        tokens, total = 0, 0.0
        optimizer.zero_grad()
        while tokens < budget:
            x, y, count = book.batch(4)
            loss = token_loss(model, x.to(device), y.to(device), budget)
            loss.backward()
            total = total + loss.detach()
            tokens += count
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warmup.step()
        xm.mark_step()

        seen += tokens
        if (update + 1) % 5 == 0:
            nll = total.item() * budget / tokens
            print(f"update {update + 1:3d}  tokens {seen:6d}  budget {budget:5d}  nll {nll:.3f}")


if __name__ == "__main__":
    main()
