import logging
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla as tx

logging.basicConfig(level=logging.INFO, format='%(message)s')
log = logging.getLogger('dlrm')


class CrossNet(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.w = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, x0):
        x = x0
        for lin in self.w:
            x = x0 * lin(x) + x
        return x


class DCN(nn.Module):
    def __init__(self, cardinalities, dense=6, emb=8):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(c, emb) for c in cardinalities)
        dim = emb * len(cardinalities) + dense
        self.cross = CrossNet(dim, 2)
        self.deep = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.out = nn.Linear(dim + 16, 1)

    def forward(self, dense, cat):
        es = [t(cat[:, i]) for i, t in enumerate(self.tables)]
        x = torch.cat([dense] + es, 1)
        return self.out(torch.cat([self.cross(x), self.deep(x)], 1)).squeeze(1)


class Metrics:
    def __init__(self):
        self.rows = []

    def add(self, **kw):
        self.rows.append(kw)

    def flush(self):
        for r in self.rows:
            log.info(' '.join(f'{k}={float(v):.4f}' for k, v in r.items()))
        self.rows.clear()


def global_norm(params):
    return torch.sqrt(sum(p.grad.pow(2).sum() for p in params if p.grad is not None))


def batches(n, bs, cards, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        cat = torch.stack([torch.randint(0, c, (bs,), generator=g) for c in cards], 1)
        yield torch.randn(bs, 6, generator=g), cat, torch.randint(0, 2, (bs,), generator=g).float()


def train(cards=(40, 30, 20), steps=18, bs=32, report=6):
    device = tx.device()
    torch.manual_seed(0)
    model = DCN(cards).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02)
    metrics = Metrics()
    for step, (dense, cat, y) in enumerate(batches(steps, bs, cards), 1):
        dense, cat, y = dense.to(device), cat.to(device), y.to(device)
        logit = model(dense, cat)
        loss = F.binary_cross_entropy_with_logits(logit, y)
        opt.zero_grad()
        loss.backward()
        if step % report == 0:
            acc = ((logit > 0).float() == y).float().mean()
            metrics.add(step=step, loss=loss.detach(), acc=acc, gnorm=global_norm(model.parameters()))
        opt.step()
        tx.sync()
        metrics.flush()


if __name__ == '__main__':
    train()
