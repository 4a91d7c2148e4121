"""Translation-style encoder/decoder trained on a token budget per update."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, PAD, BOS = 40, 0, 1
SRC_LEN, TGT_LEN, ROWS = 20, 20, 3
TOKENS_PER_UPDATE = 220


class Corpus:
    """Pairs where the target is the reversed source."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def pair(self, longest):
        n = self.rng.randint(3, longest)
        src = [self.rng.randrange(2, VOCAB) for _ in range(n)]
        return src, [BOS] + src[::-1]

    def micro_batch(self):
        src = torch.full((ROWS, SRC_LEN), PAD)
        tgt = torch.full((ROWS, TGT_LEN), PAD)
        longest = self.rng.choice((9, TGT_LEN - 1))
        for i in range(ROWS):
            s, t = self.pair(longest)
            src[i, :len(s)], tgt[i, :len(t)] = torch.tensor(s), torch.tensor(t)
        return src, tgt


class TokenBudget:
    """Groups micro-batches until enough target tokens are in a group."""

    def __init__(self, corpus, budget):
        self.corpus, self.budget = corpus, budget

    def __iter__(self):
        while True:
            group, tokens = [], 0
            while tokens < self.budget:
                src, tgt = self.corpus.micro_batch()
                group.append((src, tgt))
                tokens += int((tgt[:, 1:] != PAD).sum())
            yield group, tokens


class Seq2Seq(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.pos = nn.Parameter(0.02 * torch.randn(max(SRC_LEN, TGT_LEN), d))
        self.enc = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.Linear(d, d))
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))
        self.mix = nn.Conv1d(d, d, 3)
        self.norm = nn.LayerNorm(d)

    def forward(self, src, tgt):
        mem = self.emb(src) + self.pos[:SRC_LEN]
        mem = mem + self.enc(mem)
        x = self.emb(tgt) + self.pos[:TGT_LEN]
        x = x + self.mix(F.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2)
        a = self.q(x) @ self.k(mem).transpose(1, 2) / x.shape[-1] ** 0.5
        a = a.masked_fill((src == PAD)[:, None], -1e4).softmax(-1)
        return self.norm(x + a @ self.v(mem)) @ self.emb.weight.t()


def summed_loss(model, src, tgt):
    logits = model(src, tgt)[:, :-1].flatten(0, 1)
    return F.cross_entropy(logits, tgt[:, 1:].flatten(), ignore_index=PAD, reduction="sum")


class Trainer:
    def __init__(self, device, lr=3e-3):
        self.device = device
        self.model = Seq2Seq().to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr, betas=(0.9, 0.98))

    def accumulate(self, group, tokens):
        total = torch.zeros((), device=self.device)
        for src, tgt in group:
            loss = summed_loss(self.model, src.to(self.device), tgt.to(self.device)) / tokens
            loss.backward()
            total = total + loss.detach()
        return total

    def update(self, group, tokens):
        self.opt.zero_grad()
        loss = self.accumulate(group, tokens)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        torch_xla.sync()
        return loss


def main():
    torch.manual_seed(0)
    trainer = Trainer(torch_xla.device())
    torch_xla.sync()
    groups = iter(TokenBudget(Corpus(8), TOKENS_PER_UPDATE))
    for step in range(30):
        group, tokens = next(groups)
        loss = trainer.update(group, tokens)
        if (step + 1) % 10 == 0:
            print(f"update {step + 1} tokens {tokens} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
