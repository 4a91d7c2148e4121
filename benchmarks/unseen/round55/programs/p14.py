"""Message passing network on molecule-like random graphs, regression of a graph property."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ELEMENTS = 6
NODE_STEPS = (44, 56, 96)
EDGE_PER_NODE = 3


def random_molecule(rng):
    n = int(rng.integers(4, 22))
    z = rng.integers(0, ELEMENTS, n)
    parents = [int(rng.integers(0, i)) for i in range(1, n)]
    pairs = [(i + 1, p) for i, p in enumerate(parents)]
    for _ in range(n // 6):
        a, b = rng.integers(0, n, 2)
        if a != b:
            pairs.append((int(a), int(b)))
    e = np.array(pairs + [(b, a) for a, b in pairs]).T
    deg = np.bincount(e[1], minlength=n)
    y = float((z * 0.2 - 0.5).sum() * 0.3 + (deg ** 2).mean() * 0.1)
    return z, e, y


def collate(mols):
    """Joins graphs, then fills up to the smallest size that holds them; the last graph slot takes the filling."""
    n_nodes = sum(len(z) for z, _, _ in mols)
    cap = next(s for s in NODE_STEPS if n_nodes < s)
    z = np.full(cap, ELEMENTS, np.int64)
    gid = np.full(cap, len(mols), np.int64)
    edges = np.full((2, cap * EDGE_PER_NODE), cap - 1, np.int64)
    emask = np.zeros(cap * EDGE_PER_NODE, np.float32)
    at = eat = 0
    for k, (zi, ei, _) in enumerate(mols):
        z[at:at + len(zi)] = zi
        gid[at:at + len(zi)] = k
        edges[:, eat:eat + ei.shape[1]] = ei + at
        emask[eat:eat + ei.shape[1]] = 1
        at, eat = at + len(zi), eat + ei.shape[1]
    y = np.array([m[2] for m in mols], np.float32)
    return tuple(torch.from_numpy(a) for a in (z, edges, emask, gid, y))


class MPLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.msg = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU())
        self.upd = nn.GRUCell(dim, dim)

    def forward(self, h, edges, emask):
        src, dst = edges[0], edges[1]
        m = self.msg(torch.cat([h[src], h[dst]], 1)) * emask[:, None]
        agg = torch.zeros_like(h).index_add(0, dst, m)
        return self.upd(agg, h)


class MPNN(nn.Module):
    def __init__(self, dim=16, depth=2):
        super().__init__()
        self.emb = nn.Embedding(ELEMENTS + 1, dim)
        self.layers = nn.ModuleList(MPLayer(dim) for _ in range(depth))
        self.gate = nn.Linear(dim, 1)
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, z, edges, emask, gid, n_graphs):
        h = self.emb(z)
        for layer in self.layers:
            h = layer(h, edges, emask)
        w = torch.sigmoid(self.gate(h))
        pooled = torch.zeros(n_graphs + 1, h.size(1), device=h.device).index_add(0, gid, w * h)
        return self.out(pooled[:n_graphs]).squeeze(1)


class Standardize:
    def __init__(self, ys):
        self.mean, self.std = float(np.mean(ys)), float(np.std(ys))

    def __call__(self, y):
        return (y - self.mean) / self.std


def main(epochs=6, bs=4):
    torch.manual_seed(21)
    rng = np.random.default_rng(21)
    device = torch_xla.device()
    train = [random_molecule(rng) for _ in range(40)]
    test = [random_molecule(rng) for _ in range(12)]
    norm = Standardize([m[2] for m in train])
    model = MPNN().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.85)

    for epoch in range(epochs):
        order = rng.permutation(len(train))
        seen = []
        for s in range(0, len(order), bs):
            batch = [t.to(device) for t in collate([train[i] for i in order[s:s + bs]])]
            opt.zero_grad()
            pred = model(*batch[:4], n_graphs=bs)
            loss = F.smooth_l1_loss(pred, norm(batch[4]))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            torch_xla.sync()
            seen.append(loss.detach())
        sched.step()

        model.eval()
        err = []
        with torch.no_grad():
            for s in range(0, len(test), bs):
                batch = [t.to(device) for t in collate(test[s:s + bs])]
                err.append((model(*batch[:4], n_graphs=bs) - norm(batch[4])).abs().mean())
                torch_xla.sync()
        model.train()
        print(f"epoch {epoch} train {np.mean([v.item() for v in seen]):.4f} test mae {np.mean([v.item() for v in err]):.4f}")


if __name__ == "__main__":
    main()
