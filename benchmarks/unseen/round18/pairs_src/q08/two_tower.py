"""Two-tower retrieval (query, listing) with in-batch negatives and a hardest-pairs report."""
import collections

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(q_vocab=200, l_vocab=150, dim=16, batch=6, tokens=5, temp=0.07, steps=8, report=3, lr=2e-3)


class Tower(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.bag = nn.Embedding(vocab, dim)
        self.gate = nn.Linear(dim, 1)
        self.proj = nn.Sequential(nn.Linear(dim, 2 * dim), nn.Tanh(), nn.Linear(2 * dim, dim))

    def forward(self, ids):
        e = self.bag(ids)
        w = self.gate(e).softmax(dim=1)
        return F.normalize(self.proj((w * e).sum(1)), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.query = Tower(cfg["q_vocab"], cfg["dim"])
        self.listing = Tower(cfg["l_vocab"], cfg["dim"])
        self.temp = cfg["temp"]

    def forward(self, q, l):
        return self.query(q) @ self.listing(l).t() / self.temp


class PairReport:
    """Remembers the pairs with the largest loss, for the relevance team."""

    def __init__(self, every, keep=2):
        self.every = every
        self.pending = collections.deque(maxlen=keep)

    def observe(self, step, per_pair):
        if step % self.every == 0:
            self.pending.append((step, per_pair))

    def flush(self):
        for step, per_pair in self.pending:
            worst = per_pair.cpu().topk(2).indices.tolist()
            print(f"step {step}: hardest rows {worst}")
        self.pending.clear()


def batches(cfg):
    g = torch.Generator().manual_seed(0)
    for _ in range(cfg["steps"]):
        shape = (cfg["batch"], cfg["tokens"])
        yield (torch.randint(cfg["q_vocab"], shape, generator=g),
               torch.randint(cfg["l_vocab"], shape, generator=g))


def symmetric(scores):
    target = torch.arange(scores.shape[0], device=scores.device)
    fwd = F.cross_entropy(scores, target, reduction="none")
    bwd = F.cross_entropy(scores.t(), target, reduction="none")
    return 0.5 * (fwd + bwd)


def main(cfg=CFG):
    torch.manual_seed(0)
    device = xm.xla_device()
    model = TwoTower(cfg).to(device)
    opt = torch.optim.NAdam(model.parameters(), lr=cfg["lr"])
    report = PairReport(cfg["report"])
    running = torch.zeros((), device=device)
    torch_xla.sync()
    for step, (q, l) in enumerate(batches(cfg), start=1):
        per_pair = symmetric(model(q.to(device), l.to(device)))
        opt.zero_grad()
        loss = per_pair.mean()
        loss.backward()
        opt.step()
        running += loss.detach()
        report.observe(step, per_pair.detach())
        del per_pair, loss
        torch_xla.sync()
    print("average loss", running.item() / cfg["steps"])
    report.flush()


if __name__ == "__main__":
    main()
