"""Graph regression on random molecule-like graphs, packed into a few fixed sizes."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

GRAPHS_PER_BATCH = 6
SIZES = ((48, 128), (96, 256), (160, 448))
ATOMS = 9


def random_graph(rng, lo, hi):
    n = int(rng.integers(lo, hi + 1))
    parent = [int(rng.integers(0, i)) for i in range(1, n)]
    edges = [(i + 1, p) for i, p in enumerate(parent)]
    for _ in range(n // 6):
        a, b = rng.integers(0, n, 2)
        if a != b:
            edges.append((int(a), int(b)))
    e = np.array(edges, dtype=np.int64).T
    e = np.concatenate([e, e[::-1]], axis=1)
    kinds = rng.integers(0, ATOMS, n)
    target = float((kinds == 2).mean() + 0.1 * e.shape[1] / n)
    return kinds, e, target


def pack(graphs):
    """One disjoint union, padded to the smallest size that holds it. The last node and graph are dummies."""
    nodes = sum(len(k) for k, _, _ in graphs)
    edges = sum(e.shape[1] for _, e, _ in graphs)
    n_cap, e_cap = next((n, e) for n, e in SIZES if nodes < n and edges <= e)
    kind = np.zeros(n_cap, dtype=np.int64)
    owner = np.full(n_cap, GRAPHS_PER_BATCH, dtype=np.int64)
    src = np.full(e_cap, n_cap - 1, dtype=np.int64)
    dst = np.full(e_cap, n_cap - 1, dtype=np.int64)
    at, et = 0, 0
    for g, (k, e, _) in enumerate(graphs):
        kind[at:at + len(k)] = k
        owner[at:at + len(k)] = g
        src[et:et + e.shape[1]] = e[0] + at
        dst[et:et + e.shape[1]] = e[1] + at
        at += len(k)
        et += e.shape[1]
    y = np.array([t for _, _, t in graphs], dtype=np.float32)
    return [torch.from_numpy(a) for a in (kind, owner, src, dst, y)]


def batches(rng, count):
    ranges = ((4, 7), (9, 14), (17, 25))
    for _ in range(count):
        lo, hi = ranges[rng.choice(3, p=(0.3, 0.4, 0.3))]
        yield pack([random_graph(rng, lo, hi) for _ in range(GRAPHS_PER_BATCH)])


class MessageLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.msg = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU())
        self.upd = nn.Linear(2 * dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, src, dst):
        m = self.msg(torch.cat([h[src], h[dst]], dim=1))
        agg = torch.zeros_like(h).index_add(0, dst, m)
        return self.norm(h + F.silu(self.upd(torch.cat([h, agg], dim=1))))


class MoleculeNet(nn.Module):
    def __init__(self, dim=16, layers=2):
        super().__init__()
        self.embed = nn.Embedding(ATOMS, dim)
        self.layers = nn.ModuleList(MessageLayer(dim) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, kind, owner, src, dst):
        h = self.embed(kind)
        for layer in self.layers:
            h = layer(h, src, dst)
        pooled = h.new_zeros(GRAPHS_PER_BATCH + 1, h.shape[1]).index_add(0, owner, h)
        size = h.new_zeros(GRAPHS_PER_BATCH + 1).index_add(0, owner, torch.ones_like(h[:, 0]))
        pooled = pooled / size.clamp(min=1.0).unsqueeze(1)
        return self.head(pooled[:GRAPHS_PER_BATCH]).squeeze(1)


@torch.no_grad()
def evaluate(net, held_out, device):
    net.eval()
    total = torch.zeros((), device=device)
    for batch in held_out:
        kind, owner, src, dst, y = (t.to(device) for t in batch)
        total += (net(kind, owner, src, dst) - y).abs().mean()
        torch_xla.sync()
    net.train()
    return total.item() / len(held_out)


def main():
    torch.manual_seed(13)
    device = torch_xla.device()
    net = MoleculeNet().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.LinearLR(opt, start_factor=0.2, end_factor=0.9, total_iters=20)
    held_out = list(batches(np.random.default_rng(99), 6))

    for step, batch in enumerate(batches(np.random.default_rng(13), 66), start=1):
        kind, owner, src, dst, y = (t.to(device) for t in batch)
        opt.zero_grad()
        loss = F.smooth_l1_loss(net(kind, owner, src, dst), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        xm.optimizer_step(opt, barrier=True)
        sched.step()
        if step % 11 == 0:
            print(f"step {step:3d} nodes {len(kind):3d} loss {loss.item():.4f} held-out {evaluate(net, held_out, device):.4f}")


if __name__ == "__main__":
    main()
