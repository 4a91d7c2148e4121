"""Causal language model trained with a token budget per update (micro-batches are accumulated)."""
import logging
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("budget")

PAD = 0
CHAT, ARTICLES = (4, 5, 6), (12, 14, 16)


@dataclass
class Config:
    seed: int = 29
    vocab: int = 40
    dim: int = 16
    block: int = 16
    micro: int = 4
    updates: int = 24
    tokens_per_update: int = 150
    lr: float = 8e-2
    max_norm: float = 1.5


class Documents:
    """An endless stream of documents from sources with very different lengths."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.rng = random.Random(cfg.seed)

    def __iter__(self):
        while True:
            lengths = self.rng.choice([CHAT, ARTICLES])
            for _ in range(self.cfg.micro):
                n, start, stride = self.rng.choice(lengths), self.rng.randint(1, 9), self.rng.choice([1, 3])
                yield [(start + stride * i) % (self.cfg.vocab - 1) + 1 for i in range(n)]


def micro_batches(docs, cfg):
    it = iter(docs)
    while True:
        ids = torch.full((cfg.micro, cfg.block), PAD)
        for row in range(cfg.micro):
            doc = next(it)
            ids[row, :len(doc)] = torch.tensor(doc)
        yield ids, int((ids[:, 1:] != PAD).sum())


def updates(docs, cfg):
    """Groups micro-batches until the group holds enough tokens."""
    group, tokens = [], 0
    for ids, count in micro_batches(docs, cfg):
        group.append(ids)
        tokens += count
        if tokens >= cfg.tokens_per_update:
            yield group, tokens
            group, tokens = [], 0


class Causal(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.shift = nn.Linear(3 * cfg.dim, cfg.dim)
        self.norm = nn.LayerNorm(cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.vocab)

    def forward(self, ids):
        h = self.tok(ids)
        past1 = F.pad(h, (0, 0, 1, 0))[:, :-1]
        past2 = F.pad(h, (0, 0, 2, 0))[:, :-2]
        return self.out(self.norm(torch.tanh(self.shift(torch.cat([h, past1, past2], -1)))))


def token_loss(logits, ids):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD, reduction="sum")


class Meter:
    def __init__(self):
        self.tokens, self.updates = 0, 0

    def add(self, tokens):
        self.tokens += tokens
        self.updates += 1

    def line(self, loss):
        return f"update {self.updates} tokens {self.tokens} loss {loss:.3f}"


def run_update(model, opt, group, tokens, cfg, device):
    opt.zero_grad()
    total = torch.zeros((), device=device)
    for ids in group:
        ids = ids.to(device)
        loss = token_loss(model(ids), ids) / tokens
        loss.backward()
        total = total + loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), cfg.max_norm)
    opt.step()
    xm.mark_step()
    return total


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    model = Causal(cfg).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    meter = Meter()
    for group, tokens in updates(Documents(cfg), cfg):
        total = run_update(model, opt, group, tokens, cfg, device)
        meter.add(tokens)
        if meter.updates % 5 == 0:
            log.info(meter.line(total.item()))
        if meter.updates == cfg.updates:
            break


if __name__ == "__main__":
    main()
