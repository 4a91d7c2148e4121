"""Character language model over length buckets, each padded to the bucket's edge."""
import logging
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("charlm")

PAD = 0


@dataclass
class Config:
    seed: int = 9
    vocab: int = 30
    dim: int = 24
    heads: int = 2
    batch_size: int = 6
    steps: int = 36
    lr: float = 2e-3
    edges: tuple = (8, 16, 24)
    warm_cycles: int = 4


class BucketSampler:
    """Yields (edge, rows); walks the buckets once in order, then at random."""

    def __init__(self, cfg, sentences):
        self.cfg = cfg
        self.rng = random.Random(cfg.seed)
        self.by_edge = {e: [] for e in cfg.edges}
        for s in sentences:
            edge = next(e for e in cfg.edges if len(s) <= e)
            self.by_edge[edge].append(s)

    def __iter__(self):
        order = list(self.cfg.edges) * self.cfg.warm_cycles
        while len(order) < self.cfg.steps:
            order.append(self.rng.choice(self.cfg.edges))
        for edge in order:
            yield edge, self.rng.sample(self.by_edge[edge], self.cfg.batch_size)


def make_sentences(cfg, n=300):
    rng = random.Random(cfg.seed + 1)
    out = []
    for _ in range(n):
        length = rng.randint(4, cfg.edges[-1])
        start = rng.randint(1, cfg.vocab - 1)
        out.append([(start + i * 2) % (cfg.vocab - 1) + 1 for i in range(length)])
    return out


def pad_rows(rows, edge):
    out = torch.full((len(rows), edge), PAD, dtype=torch.long)
    for i, row in enumerate(rows):
        out[i, :len(row)] = torch.tensor(row)
    return out


class CharLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim, padding_idx=PAD)
        self.pos = nn.Embedding(cfg.edges[-1], cfg.dim)
        self.layer = nn.TransformerEncoderLayer(cfg.dim, cfg.heads, 2 * cfg.dim, dropout=0.0, batch_first=True)
        self.out = nn.Linear(cfg.dim, cfg.vocab)
        mask = torch.triu(torch.full((cfg.edges[-1], cfg.edges[-1]), float("-inf")), 1)
        self.register_buffer("mask", mask)

    def forward(self, ids):
        n = ids.shape[1]
        h = self.tok(ids) + self.pos.weight[:n]
        return self.out(self.layer(h, src_mask=self.mask[:n, :n]))


def lm_loss(logits, ids):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    model = CharLM(cfg).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr * 20)
    history = {e: [] for e in cfg.edges}
    for edge, rows in BucketSampler(cfg, make_sentences(cfg)):
        ids = pad_rows(rows, edge).to(device)
        opt.zero_grad()
        loss = lm_loss(model(ids), ids)
        loss.backward()
        opt.step()
        torch_xla.sync()
        history[edge].append(loss.detach())
    for edge, losses in history.items():
        log.info("bucket %2d: %d steps, loss %.3f -> %.3f", edge, len(losses), losses[0].item(), losses[-1].item())


if __name__ == "__main__":
    main()
