"""Character level language model trained with a token budget per update.

Documents differ a lot in length, so an update covers as many micro-batches as are
needed to reach TOKENS_PER_UPDATE real (non padding) characters.
"""
import math
import random
import string

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

VOCAB = string.ascii_lowercase + " ."
PAD = len(VOCAB)
BLOCK = 48
SPAN = 5
MICRO = 8
TOKENS_PER_UPDATE = 600
UPDATES = 24
WORDS = "the a small old grey cat dog sat ran slept on under near mat tree river and then while it rained".split()


def documents(rng):
    while True:
        topic_len = rng.choice((1, 2, 4, 8))
        for _ in range(rng.randint(4, 20)):
            n = max(1, int(rng.expovariate(1.0 / topic_len)))
            yield " ".join(rng.choice(WORDS) for _ in range(n)) + "."


def micro_batches(rng):
    docs = documents(rng)
    table = {c: i for i, c in enumerate(VOCAB)}
    while True:
        ids = torch.full((MICRO, BLOCK + 1), PAD, dtype=torch.long)
        for row in range(MICRO):
            doc = [table[c] for c in next(docs)][:BLOCK + 1]
            ids[row, :len(doc)] = torch.tensor(doc)
        yield ids, int((ids[:, 1:] != PAD).sum())


class CharLM(nn.Module):
    """Neural n-gram model (Bengio et al.): the last SPAN characters predict the next one."""

    def __init__(self, dim=16, hidden=64):
        super().__init__()
        self.tok = nn.Embedding(len(VOCAB) + 1, dim)
        self.mix = nn.Linear(SPAN * dim, hidden)
        self.drop = nn.Dropout(0.1)
        self.back = nn.Linear(hidden, dim)
        self.bias = nn.Parameter(torch.zeros(len(VOCAB) + 1))

    def forward(self, ids):
        x = self.tok(ids)
        past = F.pad(x, (0, 0, SPAN - 1, 0))
        context = torch.cat([past[:, i:i + x.size(1)] for i in range(SPAN)], dim=-1)
        h = self.drop(torch.tanh(self.mix(context)))
        return F.linear(self.back(h), self.tok.weight, self.bias)


def lr_at(update, peak=3e-3, warmup=5):
    if update < warmup:
        return peak * (update + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (update - warmup) / (UPDATES - warmup)))


def main():
    torch.manual_seed(17)
    rng = random.Random(17)
    device = xm.xla_device()
    model = CharLM().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    stream = micro_batches(rng)
    xm.mark_step()

    for update in range(UPDATES):
        for group in opt.param_groups:
            group["lr"] = lr_at(update)
        opt.zero_grad(set_to_none=True)
        tokens, summed = 0, torch.zeros((), device=device)
        while tokens < TOKENS_PER_UPDATE:
            ids, n = next(stream)
            ids = ids.to(device)
            logits = model(ids[:, :-1])
            nll = F.cross_entropy(
                logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD, reduction="sum")
            nll.backward()
            summed += nll.detach()
            tokens += n
        for p in model.parameters():
            p.grad /= tokens
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        xm.mark_step()
        if update % 6 == 5:
            xm.master_print(f"update {update + 1} nll/char {summed.item() / tokens:.3f}")


if __name__ == "__main__":
    main()
