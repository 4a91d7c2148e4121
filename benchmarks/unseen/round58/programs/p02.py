"""RotatE-style knowledge graph completion with alternating head/tail corruption
and self-adversarial negatives; filtered MRR on a held-out split now and then."""
import itertools
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_ENT, N_REL, DIM = 180, 7, 16
BATCH, NEG = 32, 24
GAMMA, ADV_TEMP = 6.0, 1.0
STEPS, EVAL_EVERY, WARMUP = 60, 15, 10


def make_graph(seed):
    """Entities on a ring; each relation is a rotation with a little noise."""
    rng = np.random.default_rng(seed)
    shifts = rng.integers(1, N_ENT // 2, N_REL)
    triples = set()
    for h in range(N_ENT):
        for r in range(N_REL):
            for _ in range(int(rng.integers(0, 3))):
                t = (h + int(shifts[r]) + int(rng.integers(-1, 2))) % N_ENT
                triples.add((h, r, t))
    triples = sorted(triples)
    random.Random(seed).shuffle(triples)
    return triples


class NegativeSampler:
    """Corrupts one side, never producing a known true triple."""

    def __init__(self, triples, mode, seed):
        self.triples, self.mode = triples, mode
        self.rng = np.random.default_rng(seed)
        self.true = {}
        for h, r, t in triples:
            key, val = ((r, t), h) if mode == "head" else ((h, r), t)
            self.true.setdefault(key, set()).add(val)

    def _negatives(self, h, r, t):
        known = self.true[(r, t) if self.mode == "head" else (h, r)]
        out = []
        while len(out) < NEG:
            cand = self.rng.integers(0, N_ENT, 2 * NEG)
            out.extend(int(c) for c in cand if int(c) not in known)
        return out[:NEG]

    def __iter__(self):
        while True:
            order = self.rng.permutation(len(self.triples))
            for i in range(0, len(order) - BATCH + 1, BATCH):
                pos = [self.triples[j] for j in order[i:i + BATCH]]
                neg = [self._negatives(*p) for p in pos]
                yield self.mode, torch.tensor(pos), torch.tensor(neg)


class RotatE(nn.Module):
    def __init__(self):
        super().__init__()
        self.range = (GAMMA + 2.0) / DIM
        self.ent = nn.Parameter(torch.empty(N_ENT, 2 * DIM).uniform_(-self.range, self.range))
        self.rel = nn.Parameter(torch.empty(N_REL, DIM).uniform_(-self.range, self.range))

    def forward(self, pos, cand, mode):
        """pos: (B, 3); cand: (B, K) replaces the side named by mode."""
        phase = self.rel[pos[:, 1]].unsqueeze(1) * (math.pi / self.range)
        re_r, im_r = torch.cos(phase), torch.sin(phase)
        re_c, im_c = self.ent[cand].chunk(2, -1)
        fixed = pos[:, 2] if mode == "head" else pos[:, 0]
        re_f, im_f = self.ent[fixed].unsqueeze(1).chunk(2, -1)
        if mode == "head":
            re = re_r * re_f + im_r * im_f - re_c
            im = re_r * im_f - im_r * re_f - im_c
        else:
            re = re_f * re_r - im_f * im_r - re_c
            im = re_f * im_r + im_f * re_r - im_c
        return GAMMA - torch.sqrt(re * re + im * im + 1e-9).sum(-1)


def loss_fn(model, pos, neg, mode):
    gold = pos[:, 0:1] if mode == "head" else pos[:, 2:3]
    pos_score = model(pos, gold, mode).squeeze(1)
    neg_score = model(pos, neg, mode)
    w = F.softmax(neg_score * ADV_TEMP, -1).detach()
    return -(F.logsigmoid(pos_score).mean() + (w * F.logsigmoid(-neg_score)).sum(-1).mean()) / 2


@torch.no_grad()
def evaluate(model, triples, filters, device):
    model.eval()
    everything = torch.arange(N_ENT, device=device).expand(BATCH, N_ENT)
    rr = []
    for i in range(0, len(triples) - BATCH + 1, BATCH):
        chunk = triples[i:i + BATCH]
        mask = torch.zeros(BATCH, N_ENT)
        for row, (h, r, t) in enumerate(chunk):
            mask[row, list(filters.get((h, r), set()) - {t})] = 1.0
        pos = torch.tensor(chunk).to(device)
        score = model(pos, everything, "tail") - 1e4 * mask.to(device)
        gold = score.gather(1, pos[:, 2:3])
        rank = 1 + (score > gold).sum(1)
        rr.append((1.0 / rank.float()).cpu())
    model.train()
    return torch.cat(rr).mean().item()


def main():
    torch.manual_seed(11)
    device = torch_xla.device()
    triples = make_graph(11)
    valid, train = triples[:2 * BATCH], triples[2 * BATCH:]
    filters = {}
    for h, r, t in triples:
        filters.setdefault((h, r), set()).add(t)

    streams = itertools.cycle([iter(NegativeSampler(train, "head", 1)),
                               iter(NegativeSampler(train, "tail", 2))])
    model = RotatE().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / WARMUP) * 0.5 ** (s // 30))

    running = torch.zeros((), device=device)
    for step in range(1, STEPS + 1):
        mode, pos, neg = next(next(streams))
        pos, neg = pos.to(device), neg.to(device)
        opt.zero_grad(set_to_none=True)
        loss = loss_fn(model, pos, neg, mode)
        loss.backward()
        opt.step()
        sched.step()
        running += loss.detach()
        torch_xla.sync()
        if step % EVAL_EVERY == 0:
            mrr = evaluate(model, valid, filters, device)
            print(f"step {step} loss {running.item() / EVAL_EVERY:.4f} "
                  f"lr {sched.get_last_lr()[0]:.4f} valid MRR {mrr:.4f}")
            running.zero_()


if __name__ == "__main__":
    main()
