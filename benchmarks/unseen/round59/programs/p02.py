import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

# Contrastive pre-training of node embeddings: two diffusion views of a sampled
# subgraph, InfoNCE between the views of the same node.
NODES = 1200
SUB = 48
FEATS = 24
HID = 32
STEPS = 40


def make_graph(seed):
    rng = np.random.default_rng(seed)
    comm = rng.integers(0, 6, size=NODES)
    centers = rng.normal(size=(6, FEATS))
    x = centers[comm] + 0.8 * rng.normal(size=(NODES, FEATS))
    nbrs = [set() for _ in range(NODES)]
    for _ in range(NODES * 6):
        u = int(rng.integers(NODES))
        if rng.random() < 0.8:
            v = int(rng.choice(np.flatnonzero(comm == comm[u])))
        else:
            v = int(rng.integers(NODES))
        if u != v:
            nbrs[u].add(v)
            nbrs[v].add(u)
    return x.astype(np.float32), nbrs


class RandomWalkSampler:
    """Random walks from a few roots until SUB distinct nodes were visited."""

    def __init__(self, x, nbrs, seed):
        self.x, self.nbrs = x, nbrs
        self.rng = np.random.default_rng(seed)

    def sample(self):
        seen = []
        index = {}
        while len(seen) < SUB:
            cur = int(self.rng.integers(NODES))
            for _ in range(12):
                if cur not in index and len(seen) < SUB:
                    index[cur] = len(seen)
                    seen.append(cur)
                options = list(self.nbrs[cur])
                if not options:
                    break
                cur = options[int(self.rng.integers(len(options)))]
        adj = np.eye(SUB, dtype=np.float32)
        for u in seen:
            for v in self.nbrs[u]:
                if v in index:
                    adj[index[u], index[v]] = 1.0
        deg = adj.sum(1)
        adj = adj / np.sqrt(deg[:, None] * deg[None, :])
        return torch.from_numpy(self.x[seen]), torch.from_numpy(adj)


class Propagation(nn.Module):
    def __init__(self, tol=1e-3, max_iter=80):
        super().__init__()
        self.tol = tol
        self.max_iter = max_iter

    def forward(self, h, adj, alpha):
        z = h
        for _ in range(self.max_iter):
            nxt = (1.0 - alpha) * (adj @ z) + alpha * h
            gap = (nxt - z).detach().abs().max()
            z = nxt
            if gap < self.tol:
                break
        return z


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1 = nn.Linear(FEATS, HID)
        self.lin2 = nn.Linear(HID, HID)
        self.prop = Propagation()
        self.drop = nn.Dropout(0.2)

    def forward(self, x, adj, alpha):
        h = self.lin2(F.elu(self.lin1(self.drop(x))))
        return self.prop(h, adj, alpha)


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(HID, HID), nn.ReLU(), nn.Linear(HID, HID))

    def forward(self, z):
        return F.normalize(self.net(z), dim=-1)


def info_nce(a, b, tau=0.4):
    logits = a @ b.t() / tau
    labels = torch.arange(a.size(0), device=a.device)
    return 0.5 * (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels))


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    sampler = RandomWalkSampler(*make_graph(seed=0), seed=1)
    rng = np.random.default_rng(17)

    encoder = Encoder().to(device)
    projector = Projector().to(device)
    params = list(encoder.parameters()) + list(projector.parameters())
    opt = torch.optim.Adam(params, lr=3e-3, weight_decay=1e-5)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=STEPS)
    ema = torch.zeros((), device=device)
    torch_xla.sync()

    for step in range(STEPS):
        x, adj = sampler.sample()
        x, adj = x.to(device), adj.to(device)
        # near view keeps the node, far view spreads over its community
        near = float(rng.uniform(0.35, 0.6))
        far = float(rng.uniform(0.12, 0.3))
        a = projector(encoder(x, adj, near))
        b = projector(encoder(x, adj, far))
        loss = info_nce(a, b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        ema.lerp_(loss.detach(), 0.1)
        torch_xla.sync()
        if step % 8 == 7:
            print(f"step {step + 1} loss {loss.item():.4f} ema {ema.item():.4f}")


if __name__ == "__main__":
    main()
