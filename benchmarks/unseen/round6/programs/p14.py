"""Click-through-rate model over a mixture of two log sources."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FIELDS, BUCKETS, DENSE, BATCH = 5, 50, 4, 32


class WebSource:
    """Log lines with raw counters."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def read(self, n):
        cats = self.rng.integers(0, BUCKETS, size=(n, FIELDS))
        counts = self.rng.poisson(3.0, size=(n, DENSE)).astype(np.float32)
        dense = np.log1p(counts)
        click = ((cats[:, 0] % 7 < 3) & (counts[:, 0] > 2)).astype(np.float32)
        return cats, dense, click


class AppSource:
    """Events whose counters come already as rates over a window."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.window = np.array([1, 7, 14, 30])

    def read(self, n):
        cats = self.rng.integers(0, BUCKETS, size=(n, FIELDS))
        counts = self.rng.poisson(3.0 * self.window, size=(n, DENSE))
        dense = np.log1p(counts / self.window)
        click = (cats[:, 1] % 5 < 2).astype(np.float32)
        return cats, dense, click


class Mixture:
    def __init__(self, sources, weights, seed):
        self.sources, self.weights = sources, np.asarray(weights)
        self.rng = np.random.default_rng(seed)

    def next(self, n):
        k = self.rng.choice(len(self.sources), p=self.weights)
        cats, dense, click = self.sources[k].read(n)
        return {"cats": cats, "dense": standardise(dense), "click": click}


def standardise(x):
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-3)


class CrossLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(d, d)

    def forward(self, x0, x):
        return x0 * self.lin(x) + x


class CtrModel(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(BUCKETS, dim) for _ in range(FIELDS)])
        width = FIELDS * dim + DENSE
        self.cross = nn.ModuleList([CrossLayer(width) for _ in range(2)])
        self.deep = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.out = nn.Linear(width + 16, 1)

    def forward(self, cats, dense):
        e = [t(cats[:, i]) for i, t in enumerate(self.tables)]
        weight = self.out.weight.dtype
        x0 = torch.cat(e + [dense.to(weight)], 1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        return self.out(torch.cat([x, self.deep(x0)], 1)).squeeze(1)


class Trainer:
    def __init__(self, model, device, lr=1e-2):
        self.model, self.device = model.to(device), device
        self.opt = torch.optim.Adagrad(self.model.parameters(), lr=lr)

    def feed(self, batch):
        return {k: torch.as_tensor(v).to(self.device) for k, v in batch.items()}

    def step(self, batch):
        b = self.feed(batch)
        logits = self.model(b["cats"], b["dense"])
        loss = F.binary_cross_entropy_with_logits(logits, b["click"])
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, batches):
        total = 0.0
        for batch in batches:
            b = self.feed(batch)
            value = F.binary_cross_entropy_with_logits(self.model(b["cats"], b["dense"]), b["click"])
            torch_xla.sync()
            total += value.item()
        return total / len(batches)


def main():
    torch.manual_seed(0)
    trainer = Trainer(CtrModel(), torch_xla.device())
    mix = Mixture([WebSource(1), AppSource(2)], [0.6, 0.4], seed=3)
    valid_mix = Mixture([WebSource(11), AppSource(12)], [0.6, 0.4], seed=13)
    valid = [valid_mix.next(BATCH) for _ in range(6)]
    torch_xla.sync()
    for step in range(45):
        loss = trainer.step(mix.next(BATCH))
        if (step + 1) % 15 == 0:
            print(f"{step + 1} train {loss.item():.4f} valid {trainer.evaluate(valid):.4f}")


if __name__ == "__main__":
    main()
