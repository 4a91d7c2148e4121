"""Energies of small clusters with a continuous-filter graph network, padded batches in three sizes."""
import math
import random

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

CUTOFF = 2.2
PER_BATCH = 6
CAPS = ((48, 256), (64, 512), (80, 1024))  # (nodes, edges), picked from the histogram of the data
EPOCHS = 3


def random_cluster(rng):
    n = rng.choice([4, 5, 6, 7, 8, 9, 10, 11, 12])
    pos = torch.tensor([[rng.gauss(0, 1.1) for _ in range(3)] for _ in range(n)])
    kind = torch.tensor([rng.randrange(4) for _ in range(n)])
    d = torch.cdist(pos, pos) + 10 * torch.eye(n)
    src, dst = (d < CUTOFF).nonzero(as_tuple=True)
    r = d.clamp(min=0.8)
    energy = (4 * (r ** -12 - r ** -6)).triu(1).sum() + 0.2 * kind.float().sum()
    return kind, src, dst, d[src, dst], energy.clamp(-20, 20)


def collate(graphs):
    nodes = sum(len(g[0]) for g in graphs)
    edges = sum(len(g[1]) for g in graphs)
    cap_n, cap_e = next(c for c in CAPS if nodes < c[0] and edges <= c[1])
    kind = torch.zeros(cap_n, dtype=torch.long)
    owner = torch.full((cap_n,), PER_BATCH, dtype=torch.long)
    src = torch.full((cap_e,), cap_n - 1, dtype=torch.long)
    dst = torch.full((cap_e,), cap_n - 1, dtype=torch.long)
    dist = torch.full((cap_e,), CUTOFF)
    at_n = at_e = 0
    for i, (k, s, t, d, _) in enumerate(graphs):
        kind[at_n:at_n + len(k)] = k
        owner[at_n:at_n + len(k)] = i
        src[at_e:at_e + len(s)] = s + at_n
        dst[at_e:at_e + len(s)] = t + at_n
        dist[at_e:at_e + len(s)] = d
        at_n += len(k)
        at_e += len(s)
    return kind, owner, src, dst, dist, torch.stack([g[4] for g in graphs])


class Interaction(nn.Module):
    def __init__(self, dim, n_rbf):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(n_rbf, dim), nn.Softplus(), nn.Linear(dim, dim))
        self.inp = nn.Linear(dim, dim, bias=False)
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.Softplus(), nn.Linear(dim, dim))

    def forward(self, h, src, dst, rbf, envelope):
        msg = self.inp(h)[src] * self.filter(rbf) * envelope
        return h + self.out(torch.zeros_like(h).index_add(0, dst, msg))


class ClusterNet(nn.Module):
    def __init__(self, dim=24, n_rbf=12, depth=2):
        super().__init__()
        self.emb = nn.Embedding(4, dim)
        self.blocks = nn.ModuleList(Interaction(dim, n_rbf) for _ in range(depth))
        self.read = nn.Sequential(nn.Linear(dim, dim), nn.Softplus(), nn.Linear(dim, 1))
        self.register_buffer("centers", torch.linspace(0.5, CUTOFF, n_rbf))

    def forward(self, kind, owner, src, dst, dist):
        rbf = torch.exp(-8.0 * (dist[:, None] - self.centers) ** 2)
        envelope = 0.5 * (torch.cos(math.pi * dist / CUTOFF) + 1)[:, None]
        h = self.emb(kind)
        for block in self.blocks:
            h = block(h, src, dst, rbf, envelope)
        atom = self.read(h).squeeze(-1)
        return torch.zeros(PER_BATCH + 1, device=atom.device).index_add(0, owner, atom)[:PER_BATCH]


def batches(graphs, rng=None):
    order = list(range(len(graphs)))
    if rng is not None:
        rng.shuffle(order)
    for i in range(0, len(order) - PER_BATCH + 1, PER_BATCH):
        yield collate([graphs[j] for j in order[i:i + PER_BATCH]])


def main():
    rng = random.Random(21)
    torch.manual_seed(21)
    graphs = [random_cluster(rng) for _ in range(126)]
    train, valid = graphs[:96], graphs[96:]
    device = torch_xla.device()
    model = ClusterNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    huber = nn.HuberLoss(delta=1.0)

    for epoch in range(EPOCHS):
        model.train()
        seen = torch.zeros((), device=device)
        for batch in batches(train, rng):
            kind, owner, src, dst, dist, y = (t.to(device) for t in batch)
            opt.zero_grad()
            loss = huber(model(kind, owner, src, dst, dist), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            xm.optimizer_step(opt)
            seen += loss.detach()
            xm.mark_step()
        model.eval()
        mae = torch.zeros((), device=device)
        with torch.no_grad():
            for batch in batches(valid):
                kind, owner, src, dst, dist, y = (t.to(device) for t in batch)
                mae += (model(kind, owner, src, dst, dist) - y).abs().mean()
                xm.mark_step()
        print(f"epoch {epoch}: train {seen.item() / (len(train) // PER_BATCH):.4f}  valid MAE {mae.item() / (len(valid) // PER_BATCH):.4f}")


if __name__ == "__main__":
    main()
