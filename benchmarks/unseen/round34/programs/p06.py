"""Two-tower recommender with sampled negatives and a streaming ranking metric."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

USERS, ITEMS, DIM = 300, 200, 12


class Clicks:
    """Implicit feedback from latent tastes and a Zipf popularity."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        u = self.rng.normal(size=(USERS, 4))
        v = self.rng.normal(size=(ITEMS, 4))
        pop = 1.0 / np.arange(1, ITEMS + 1) ** 0.8
        logits = u @ v.T + np.log(pop)
        p = np.exp(logits - logits.max(1, keepdims=True))
        self.p = p / p.sum(1, keepdims=True)
        self.counts = (self.p.sum(0) * 50 + 1).astype(np.float32)

    def batch(self, n):
        users = self.rng.integers(0, USERS, n)
        items = np.array([self.rng.choice(ITEMS, p=self.p[u]) for u in users])
        hours = self.rng.integers(0, 24, n)
        return (torch.from_numpy(users), torch.from_numpy(items), torch.from_numpy(hours))


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, DIM)
        self.hour = nn.Embedding(24, DIM)
        self.item = nn.Embedding(ITEMS, DIM)
        self.proj = nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, DIM))
        for e in (self.user, self.hour, self.item):
            nn.init.normal_(e.weight, std=0.1)

    def query(self, users, hours):
        return F.normalize(self.proj(self.user(users) + self.hour(hours)), dim=-1)

    def items(self, ids):
        return F.normalize(self.item(ids), dim=-1)


class NegativeSampler:
    """Draws items in proportion to count ** power and corrects with log q."""

    def __init__(self, counts, device):
        self.counts = counts.to(device)

    def draw(self, n, power):
        q = self.counts.pow(power)
        q = q / q.sum()
        ids = torch.multinomial(q, n, replacement=True)
        return ids, torch.log(q)


class RankAccuracy:
    """Share of (positive, negative) pairs in the right order over the run so far."""

    def __init__(self):
        self.pos, self.neg = [], []

    def update(self, pos, neg):
        self.pos.append(pos.detach())
        self.neg.append(neg.detach())

    def compute(self):
        pos = torch.cat(self.pos)
        neg = torch.cat(self.neg)
        return (pos[:, None] > neg).float().mean()


def loss_fn(model, sampler, batch, n_neg, power, temperature=0.1):
    users, items, hours = batch
    q = model.query(users, hours)
    neg_ids, log_q = sampler.draw(n_neg, power)
    pos = (q * model.items(items)).sum(-1) / temperature
    neg = q @ model.items(neg_ids).T / temperature
    logits = torch.cat([(pos - log_q[items])[:, None], neg - log_q[neg_ids]], dim=1)
    hit = neg_ids[None, :] == items[:, None]
    mask = torch.cat([torch.zeros_like(hit[:, :1]), hit], dim=1)
    logits = logits.masked_fill(mask, -1e4)
    target = torch.zeros(len(users), dtype=torch.long, device=logits.device)
    return F.cross_entropy(logits, target), pos, neg


def power_at(step, start=0.2, end=0.9, ramp=14):
    """Uniform-ish negatives at first, popular ones later, then constant."""
    return start + (end - start) * min(1.0, step / ramp)


def main(steps=32, batch_size=48, n_neg=24, log_every=4):
    torch.manual_seed(21)
    device = torch_xla.device()
    data = Clicks(seed=21)
    model = TwoTower().to(device)
    sampler = NegativeSampler(torch.from_numpy(data.counts), device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
    metric = RankAccuracy()

    for step in range(steps):
        batch = [b.to(device) for b in data.batch(batch_size)]
        opt.zero_grad()
        loss, pos, neg = loss_fn(model, sampler, batch, n_neg, power_at(step))
        loss.backward()
        opt.step()
        metric.update(pos, neg)
        torch_xla.sync()

        if (step + 1) % log_every == 0:
            acc = metric.compute()
            print(f"step {step + 1:3d} loss {loss.item():.4f} "
                  f"pair accuracy {acc.item():.3f}")

    model.eval()
    with torch.no_grad():
        users, items, hours = [b.to(device) for b in data.batch(64)]
        scores = model.query(users, hours) @ model.items(torch.arange(ITEMS, device=device)).T
        top = scores.topk(20, dim=1).indices
        recall = (top == items[:, None]).any(1).float().mean()
    print(f"recall@20 {recall.item():.3f}")


if __name__ == "__main__":
    main()
