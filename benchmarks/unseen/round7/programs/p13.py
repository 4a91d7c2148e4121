"""Click-through-rate model with crossed embeddings and unit-wise gradient clipping."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FIELDS = {'user': 80, 'item': 60, 'hour': 24, 'device': 5}
DENSE, BATCH = 6, 32


class ClickLog:
    def __init__(self, rows, seed):
        rng = np.random.default_rng(seed)
        self.ids = {k: rng.zipf(1.4, rows).clip(max=n) - 1 for k, n in FIELDS.items()}
        self.dense = rng.lognormal(0, 1.0, (rows, DENSE)).astype(np.float32)
        w = {k: rng.normal(0, 1, n) for k, n in FIELDS.items()}
        logit = sum(w[k][v] for k, v in self.ids.items()) + 0.1 * self.dense.sum(1) - 1
        self.click = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.float32)

    def batches(self, epochs, seed):
        rng = np.random.default_rng(seed)
        for _ in range(epochs):
            order = rng.permutation(len(self.click))
            for i in range(0, len(order) - BATCH + 1, BATCH):
                rows = order[i:i + BATCH]
                ids = np.stack([self.ids[k][rows] for k in FIELDS], axis=1)
                yield (torch.from_numpy(ids), torch.from_numpy(np.log1p(self.dense[rows])),
                       torch.from_numpy(self.click[rows]))


class CrossLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w = nn.Linear(dim, dim)

    def forward(self, x0, x):
        return x0 * self.w(x) + x


class DCN(nn.Module):
    def __init__(self, dim=8, crosses=2):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, dim) for n in FIELDS.values()])
        width = dim * len(FIELDS) + DENSE
        self.cross = nn.ModuleList([CrossLayer(width) for _ in range(crosses)])
        self.deep = nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, 12), nn.ReLU())
        self.out = nn.Linear(width + 12, 1)

    def forward(self, ids, dense):
        x0 = torch.cat([t(ids[:, i]) for i, t in enumerate(self.tables)] + [dense], dim=1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        return self.out(torch.cat([x, self.deep(x0)], dim=1)).squeeze(1)


class AdaptiveClipper:
    """Keeps each gradient below a fraction of the norm of its own parameter."""

    def __init__(self, params, factor=0.08, eps=1e-2):
        self.params = [p for p in params if p.requires_grad]
        self.factor, self.eps = factor, eps
        self.clipped = 0

    @torch.no_grad()
    def __call__(self):
        norms = torch.stack([torch.stack([p.norm(), p.grad.norm()]) for p in self.params]).tolist()
        for p, (weight, grad) in zip(self.params, norms):
            limit = self.factor * max(weight, self.eps)
            if grad > limit:
                p.grad.mul_(limit / grad)
                self.clipped += 1


class Adagrad:
    def __init__(self, params, lr, eps=1e-8):
        self.params, self.lr, self.eps = list(params), lr, eps
        self.state = [torch.full_like(p, 0.1) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, s in zip(self.params, self.state):
            s.addcmul_(p.grad, p.grad)
            p.addcdiv_(p.grad, s.sqrt().add_(self.eps), value=-self.lr)


def train(log, epochs):
    device = torch_xla.device()
    model = DCN().to(device)
    optimizer = Adagrad(model.parameters(), lr=0.05)
    clip = AdaptiveClipper(model.parameters())
    torch_xla.sync()
    running = 0.0
    for n, (ids, dense, click) in enumerate(log.batches(epochs, seed=2), 1):
        optimizer.zero_grad()
        logit = model(ids.to(device), dense.to(device))
        loss = F.binary_cross_entropy_with_logits(logit, click.to(device))
        loss.backward()
        clip()
        optimizer.step()
        torch_xla.sync()
        running = 0.9 * running + 0.1 * loss.item()
        if n % 10 == 0:
            print(f'batch {n} log loss {running / (1 - 0.9 ** n):.4f} clipped {clip.clipped}')


if __name__ == '__main__':
    torch.manual_seed(2)
    train(ClickLog(BATCH * 10, seed=1), epochs=4)
