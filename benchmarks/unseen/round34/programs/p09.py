"""Molecule property regression: message passing on padded batches of graphs.

The encoder is kept fixed for the first epoch while the readout settles.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ATOMS = 7
GRAPHS = 8
TIERS = ((96, 224), (144, 352))            # (nodes, directed edges)


def random_molecule(rng):
    n = int(rng.integers(5, 17))
    kind = rng.integers(0, ATOMS, n)
    src = [int(rng.integers(0, i)) for i in range(1, n)]
    dst = list(range(1, n))
    for _ in range(int(rng.integers(0, 3))):
        a, b = rng.integers(0, n, 2)
        if a != b:
            src.append(int(a))
            dst.append(int(b))
    edges = np.array([src + dst, dst + src])
    same = (kind[edges[0]] == kind[edges[1]]).sum() / 2
    target = 0.1 * kind.sum() - 0.4 * same + 0.05 * rng.normal()
    return kind, edges, np.float32(target)


def pack(mols):
    """Joins graphs and pads to the smallest tier; spare slots go to a dummy graph."""
    nodes = sum(len(k) for k, _, _ in mols)
    edges = sum(e.shape[1] for _, e, _ in mols)
    max_n, max_e = next((n, e) for n, e in TIERS if nodes < n and edges <= e)
    kind = np.zeros(max_n, dtype=np.int64)
    owner = np.full(max_n, len(mols), dtype=np.int64)
    edge = np.full((2, max_e), max_n - 1, dtype=np.int64)
    n0 = e0 = 0
    for g, (k, e, _) in enumerate(mols):
        kind[n0:n0 + len(k)] = k
        owner[n0:n0 + len(k)] = g
        edge[:, e0:e0 + e.shape[1]] = e + n0
        n0 += len(k)
        e0 += e.shape[1]
    y = np.array([t for _, _, t in mols], dtype=np.float32)
    return tuple(torch.from_numpy(a) for a in (kind, owner, edge, y))


def batches(mols, rng=None):
    order = np.arange(len(mols)) if rng is None else rng.permutation(len(mols))
    for i in range(0, len(mols) - GRAPHS + 1, GRAPHS):
        yield pack([mols[j] for j in order[i:i + GRAPHS]])


class Encoder(nn.Module):
    def __init__(self, dim, rounds=2):
        super().__init__()
        self.embed = nn.Embedding(ATOMS, dim)
        self.message = nn.ModuleList(nn.Linear(dim, dim) for _ in range(rounds))
        self.update = nn.ModuleList(nn.Linear(2 * dim, dim) for _ in range(rounds))

    def forward(self, kind, edge):
        h = self.embed(kind)
        for msg, upd in zip(self.message, self.update):
            m = torch.zeros_like(h).index_add(0, edge[1], F.relu(msg(h))[edge[0]])
            h = h + torch.tanh(upd(torch.cat([h, m], dim=-1)))
        return h


class Regressor(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.encoder = Encoder(dim)
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, kind, owner, edge):
        h = self.readout[:2](self.encoder(kind, edge))
        pooled = h.new_zeros(GRAPHS + 1, h.shape[1]).index_add(0, owner, h)
        return self.readout[2](pooled[:GRAPHS]).squeeze(1)


@torch.no_grad()
def validate(model, mols, device):
    err, n = torch.zeros((), device=device), 0
    for batch in batches(mols):
        kind, owner, edge, y = (b.to(device) for b in batch)
        err += (model(kind, owner, edge) - y).abs().sum()
        n += len(y)
        torch_xla.sync()
    return err.item() / n


def main(epochs=5, n_train=96, n_valid=48):
    torch.manual_seed(13)
    rng = np.random.default_rng(13)
    mols = [random_molecule(rng) for _ in range(n_train + n_valid)]
    train, valid = mols[:n_train], mols[n_train:]
    device = torch_xla.device()
    model = Regressor().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)

    step = 0
    for epoch in range(epochs):
        model.encoder.requires_grad_(epoch > 0)
        total = torch.zeros((), device=device)
        for batch in batches(train, rng):
            kind, owner, edge, y = (b.to(device) for b in batch)
            loss = F.smooth_l1_loss(model(kind, owner, edge), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            for group in opt.param_groups:
                group["lr"] = 4e-3 * 0.98 ** step
            total += loss.detach()
            xm.optimizer_step(opt, barrier=True)
            step += 1
        mae = validate(model, valid, device)
        print(f"epoch {epoch} step {step} loss {total.item():.3f} valid mae {mae:.3f}")


if __name__ == "__main__":
    main()
