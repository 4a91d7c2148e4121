"""Dense retrieval: a two-tower query/passage encoder trained with in-batch and cross-batch negatives."""
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, DIM, QLEN, PLEN = 400, 24, 8, 20
BATCH, STEPS = 16, 28


class Corpus:
    """Passages drawn from topics; a query is a noisy sample of its passage's words."""

    def __init__(self, n_passages=320, n_topics=20, seed=0):
        self.rng = np.random.default_rng(seed)
        topics = self.rng.dirichlet(np.full(VOCAB - 1, 0.03), n_topics)
        which = self.rng.integers(0, n_topics, n_passages)
        self.passages = np.stack(
            [self.rng.choice(VOCAB - 1, PLEN, p=topics[t]) + 1 for t in which])

    def batch(self, size):
        ids = self.rng.choice(len(self.passages), size, replace=False)
        p = self.passages[ids]
        cols = self.rng.integers(0, PLEN, (size, QLEN))
        q = np.take_along_axis(p, cols, 1)
        blank = self.rng.random(q.shape) < 0.2
        blank[:, 0] = False
        q[blank] = 0
        return torch.from_numpy(q), torch.from_numpy(p), torch.from_numpy(ids)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM, padding_idx=0)
        self.gate = nn.Linear(DIM, 1)
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, tokens):
        e = self.emb(tokens)
        w = self.gate(e).squeeze(-1).masked_fill(tokens == 0, -1e4).softmax(-1)
        return F.normalize(self.proj((e * w.unsqueeze(-1)).sum(1)), dim=-1)


class NegativeCache:
    """Passage vectors of recent batches, reused as extra negatives."""

    def __init__(self, max_batches=64):
        self.vectors = deque(maxlen=max_batches)
        self.ids = deque(maxlen=max_batches)

    def push(self, vectors, ids):
        self.vectors.append(vectors.detach())
        self.ids.append(ids)

    def __len__(self):
        return len(self.vectors)

    def get(self):
        return torch.cat(list(self.vectors)), torch.cat(list(self.ids))


def info_nce(q, p, ids, cache, scale):
    cand, cand_ids = p, ids
    if len(cache):
        old, old_ids = cache.get()
        cand, cand_ids = torch.cat([p, old]), torch.cat([ids, old_ids])
    logits = scale * (q @ cand.t())
    target = torch.arange(q.shape[0], device=q.device)
    same = (ids.unsqueeze(1) == cand_ids.unsqueeze(0))
    own = F.one_hot(target, cand.shape[0]).bool()
    logits = logits.masked_fill(same & ~own, -1e4)
    return F.cross_entropy(logits, target), logits


@torch.no_grad()
def momentum_update(key, query, m):
    for k, q in zip(key.parameters(), query.parameters()):
        k.lerp_(q, 1.0 - m)


@torch.no_grad()
def recall_at(query_tower, key_tower, corpus_tokens, queries, gold, k=10):
    scores = query_tower(queries) @ key_tower(corpus_tokens).t()
    hit = (scores.topk(k, dim=-1).indices == gold.unsqueeze(1)).any(-1)
    return hit.float().mean().item()


def main():
    torch.manual_seed(14)
    device = xm.xla_device()
    corpus = Corpus(seed=14)
    query_tower, passage_tower = Tower().to(device), Tower().to(device)
    passage_tower.load_state_dict(query_tower.state_dict())
    key_tower = Tower().to(device).requires_grad_(False)
    key_tower.load_state_dict(passage_tower.state_dict())

    log_scale = nn.Parameter(torch.tensor(2.3, device=device))
    params = list(query_tower.parameters()) + list(passage_tower.parameters())
    opt = torch.optim.AdamW([{"params": params}, {"params": [log_scale], "weight_decay": 0.0}], lr=5e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 2 * STEPS)
    cache = NegativeCache()

    eval_q, _, eval_ids = corpus.batch(64)
    eval_q, eval_ids = eval_q.to(device), eval_ids.to(device)
    all_passages = torch.from_numpy(corpus.passages).to(device)
    xm.mark_step()

    for step in range(STEPS):
        q_tok, p_tok, ids = (t.to(device) for t in corpus.batch(BATCH))
        q, p = query_tower(q_tok), passage_tower(p_tok)
        loss, logits = info_nce(q, p, ids, cache, log_scale.exp().clamp(max=50.0))

        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()

        momentum_update(key_tower, passage_tower, m=min(0.98, (step + 1) / (step + 5)))
        with torch.no_grad():
            cache.push(key_tower(p_tok), ids)
        xm.mark_step()

        if (step + 1) % 14 == 0:
            r = recall_at(query_tower, passage_tower, all_passages, eval_q, eval_ids)
            print(f"step {step + 1}  loss {loss.item():.3f}  recall@10 {r:.3f}")


if __name__ == "__main__":
    main()
