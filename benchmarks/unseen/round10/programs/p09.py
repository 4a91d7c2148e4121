"""Query/document retrieval: contrastive training with a memory bank and a consistency term."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

config = {
    "vocab": 300, "dim": 32, "tokens": 12, "batch": 16, "steps": 30, "bank": 112, "temperature": 0.1,
    "consistency": {"start": 12, "end": 19}, "optim": {"lr": 3e-3, "weight_decay": 0.01},
}


class Tower(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.score = nn.Linear(dim, 1)
        self.proj = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * dim, dim))

    def forward(self, ids):
        x = self.emb(ids)
        w = self.score(x).softmax(dim=1)
        return F.normalize(self.proj((w * x).sum(1)), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.query = Tower(vocab, dim)
        self.doc = Tower(vocab, dim)

    def forward(self, q, d):
        return self.query(q), self.doc(d)


class MemoryBank:
    """Most recent document embeddings, used as extra negatives."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.vectors = None

    def push(self, vectors):
        vectors = vectors.detach()
        if self.vectors is None:
            self.vectors = vectors
        else:
            self.vectors = torch.cat([vectors, self.vectors])[: self.capacity]

    def negatives(self, q):
        return None if self.vectors is None else q @ self.vectors.t()


def ramp(step, start, end):
    return min(max((step - start) / (end - start), 0.0), 1.0)


def pairs(cfg, seed=0):
    g = torch.Generator().manual_seed(seed)
    topic_words = torch.randint(0, cfg["vocab"], (40, 20), generator=g)
    while True:
        topic = torch.randint(0, 40, (cfg["batch"],), generator=g)
        pick = torch.randint(0, 20, (2, cfg["batch"], cfg["tokens"]), generator=g)
        q = topic_words[topic].gather(1, pick[0])
        d = topic_words[topic].gather(1, pick[1])
        yield q, d


def contrastive(q, d, bank, temperature):
    logits = q @ d.t()
    extra = bank.negatives(q)
    if extra is not None:
        logits = torch.cat([logits, extra], dim=1)
    target = torch.arange(q.size(0), device=q.device)
    return F.cross_entropy(logits / temperature, target)


def train(cfg):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = TwoTower(cfg["vocab"], cfg["dim"]).to(device)
    opt = torch.optim.AdamW(model.parameters(), **cfg["optim"])
    bank = MemoryBank(cfg["bank"])
    stream = pairs(cfg)
    model.train()
    for step in range(cfg["steps"]):
        q_ids, d_ids = (t.to(device) for t in next(stream))
        q, d = model(q_ids, d_ids)
        q_again = model.query(q_ids)
        nce = contrastive(q, d, bank, cfg["temperature"])
        agree = (q - q_again).square().sum(-1).mean()
        loss = nce + ramp(step, **cfg["consistency"]) * agree
        opt.zero_grad()
        loss.backward()
        opt.step()
        bank.push(d)
        torch_xla.sync()
        if step % 8 == 0:
            print(f"{step:3d} nce {nce.item():.4f} agree {agree.item():.4f}")
    return model


if __name__ == "__main__":
    train(config)
