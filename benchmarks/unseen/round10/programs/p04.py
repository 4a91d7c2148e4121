"""Translation with gradient accumulation up to a token budget (fairseq style)."""
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

PAD, BOS = 0, 1


@dataclass
class Config:
    vocab: int = 120
    dim: int = 32
    max_len: int = 24
    rows: int = 4
    tokens_per_update: int = 165
    updates: int = 20
    lr: float = 2e-3
    clip: float = 1.0


class ParallelCorpus:
    """Mixture of subtitles (short lines) and news (long ones), in document order."""

    def __init__(self, cfg, seed=11):
        self.cfg, self.rnd = cfg, random.Random(seed)
        self.perm = list(range(2, cfg.vocab))
        self.rnd.shuffle(self.perm)

    def sentence(self, kind):
        low, high = (2, 5) if kind == "subtitles" else (12, self.cfg.max_len)
        src = [self.rnd.randint(2, self.cfg.vocab - 1) for _ in range(self.rnd.randint(low, high))]
        return src, [self.perm[t - 2] for t in src]

    def pad(self, seqs):
        return torch.tensor([s + [PAD] * (self.cfg.max_len - len(s)) for s in seqs])

    def __iter__(self):
        while True:
            kind = self.rnd.choice(["subtitles", "news"])
            for _ in range(self.rnd.randint(3, 9)):
                pairs = [self.sentence(kind) for _ in range(self.cfg.rows)]
                src = self.pad([p[0] for p in pairs])
                tgt = self.pad([p[1] for p in pairs])
                yield src, tgt, sum(len(p[1]) for p in pairs)


class Translator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.src = nn.Embedding(cfg.vocab, cfg.dim, padding_idx=PAD)
        self.tgt = nn.Embedding(cfg.vocab, cfg.dim, padding_idx=PAD)
        self.enc = nn.Sequential(nn.Linear(cfg.dim, cfg.dim), nn.ReLU(), nn.Linear(cfg.dim, cfg.dim))
        self.query = nn.Linear(cfg.dim, cfg.dim)
        self.out = nn.Linear(2 * cfg.dim, cfg.vocab)
        self.pos = nn.Parameter(torch.randn(cfg.max_len, cfg.dim) * 0.1)

    def forward(self, src, prev):
        memory = self.enc(self.src(src)) + self.pos
        q = self.query(self.tgt(prev) + self.pos)
        scores = q @ memory.transpose(1, 2) / memory.size(-1) ** 0.5
        scores = scores.masked_fill((src == PAD).unsqueeze(1), -1e4)
        return self.out(torch.cat([q, scores.softmax(-1) @ memory], dim=-1))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = xm.xla_device()
        self.model = Translator(cfg).to(self.device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr, betas=(0.9, 0.98))
        self.stream = iter(ParallelCorpus(cfg))

    def micro_step(self, src, tgt):
        src, tgt = src.to(self.device), tgt.to(self.device)
        prev = F.pad(tgt[:, :-1], (1, 0), value=BOS)
        logits = self.model(src, prev)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=PAD, reduction="sum")
        loss.backward()
        return loss.detach()

    def update(self):
        self.opt.zero_grad()
        tokens, total = 0, torch.zeros((), device=self.device)
        while tokens < self.cfg.tokens_per_update:
            src, tgt, n = next(self.stream)
            total += self.micro_step(src, tgt)
            tokens += n
        for p in self.model.parameters():
            p.grad.div_(tokens)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
        self.opt.step()
        xm.mark_step()
        return total, tokens

    def fit(self):
        for step in range(self.cfg.updates):
            total, tokens = self.update()
            if step % 4 == 0 or step == self.cfg.updates - 1:
                print(f"update {step:3d} tokens {tokens} nll {total.item() / tokens:.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(Config()).fit()
