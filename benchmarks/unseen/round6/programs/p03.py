"""Session-based recommender: next-item prediction with sampled hard negatives."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_ITEMS = 200
MAX_LEN = 40
CFG = dict(dim=24, batch=16, steps=48, candidates=64, lr=5e-3, first=0.75, last=0.25)


class SessionDataset:
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.sessions = []
        for _ in range(n):
            length = int(np.clip(rng.geometric(0.12), 2, MAX_LEN))
            start = rng.integers(1, N_ITEMS)
            self.sessions.append(((start + 7 * np.arange(length + 1)) % (N_ITEMS - 1) + 1).astype(np.int64))
        self.rng = rng

    def batches(self, size):
        while True:
            order = self.rng.permutation(len(self.sessions))
            for i in range(0, len(order) - size + 1, size):
                yield self.collate([self.sessions[j] for j in order[i:i + size]])

    def collate(self, sessions):
        items = np.zeros((len(sessions), MAX_LEN), dtype=np.int64)
        target = np.zeros(len(sessions), dtype=np.int64)
        for i, s in enumerate(sessions):
            items[i, :len(s) - 1] = s[:-1]
            target[i] = s[-1]
        return trim({"items": items, "target": target})


def trim(batch):
    used = (batch["items"] > 0).any(axis=0)
    width = int(used.sum())
    batch["items"] = batch["items"][:, :width]
    return batch


def to_device(batch, device):
    return {k: torch.from_numpy(np.ascontiguousarray(v)).to(device) for k, v in batch.items()}


class SessionEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.items = nn.Embedding(N_ITEMS, dim, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(MAX_LEN, dim) * 0.02)
        self.score = nn.Sequential(nn.Linear(2 * dim, dim), nn.Tanh(), nn.Linear(dim, 1))
        self.out = nn.Linear(dim, dim)

    def forward(self, items):
        mask = (items > 0).float()
        h = self.items(items) + self.pos[:items.shape[1]]
        mean = (h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        a = self.score(torch.cat([h, mean[:, None].expand_as(h)], -1)).squeeze(-1)
        a = (a - 1e4 * (1 - mask)).softmax(-1)
        return self.out((a[..., None] * h).sum(1) + mean)


class NegativeMiner:
    """Keeps the highest-scoring part of a uniform candidate pool."""

    def __init__(self, pool, first, last, steps, seed=11):
        self.pool, self.first, self.last, self.steps = pool, first, last, steps
        self.g = torch.Generator().manual_seed(seed)

    def fraction(self, step):
        r = min(1.0, step / self.steps)
        return self.first + (self.last - self.first) * r

    def draw(self, n, device):
        return torch.randint(1, N_ITEMS, (n, self.pool), generator=self.g).to(device)

    def select(self, scores, step):
        keep = max(1, int(self.pool * self.fraction(step)))
        hard, _ = scores.topk(keep, dim=1)
        return hard


def ranking_loss(model, miner, batch, step):
    user = model(batch["items"])
    pos = (user * model.items(batch["target"])).sum(-1, keepdim=True)
    cand = miner.draw(user.shape[0], user.device)
    scores = torch.einsum("bd,bcd->bc", user, model.items(cand))
    scores = scores.masked_fill(cand == batch["target"][:, None], -1e4)
    neg = miner.select(scores, step)
    return F.softplus(neg - pos).mean() + 1e-4 * user.pow(2).sum(-1).mean()


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    data = SessionDataset(400, seed=5).batches(CFG["batch"])
    model = SessionEncoder(CFG["dim"]).to(device)
    miner = NegativeMiner(CFG["candidates"], CFG["first"], CFG["last"], CFG["steps"])
    opt = torch.optim.Adagrad(model.parameters(), lr=CFG["lr"])
    torch_xla.sync()
    for step in range(CFG["steps"]):
        batch = to_device(next(data), device)
        opt.zero_grad()
        loss = ranking_loss(model, miner, batch, step)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 16 == 15:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
