# Multi-assay property prediction for small molecules (dense graphs, one assay per record).
import random
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

MAX_ATOMS, ATOM_FEATS = 14, 10
BATCH, STEPS = 32, 32

# assay -> (kind, outputs)
ASSAYS = {
    "solubility": ("reg", 1),
    "herg": ("cls", 2),
    "cyp_isoform": ("cls", 5),
    "permeability": ("ord", 3),
}


class Molecule:
    __slots__ = ("atoms", "adj", "mask", "assay", "value")

    def __init__(self, rng):
        n = int(rng.integers(6, MAX_ATOMS + 1))
        self.atoms = np.zeros((MAX_ATOMS, ATOM_FEATS), np.float32)
        self.atoms[np.arange(n), rng.integers(0, ATOM_FEATS, n)] = 1
        a = np.zeros((MAX_ATOMS, MAX_ATOMS), np.float32)
        for i in range(1, n):  # random tree plus a ring closure
            j = int(rng.integers(0, i))
            a[i, j] = a[j, i] = 1
        i, j = rng.integers(0, n, 2)
        a[i, j] = a[j, i] = 1
        a[np.arange(n), np.arange(n)] = 1
        self.adj = a / np.maximum(a.sum(1, keepdims=True), 1)
        self.mask = (np.arange(MAX_ATOMS) < n).astype(np.float32)
        self.assay = str(rng.choice(list(ASSAYS), p=[0.3, 0.25, 0.2, 0.25]))
        kind, k = ASSAYS[self.assay]
        score = self.atoms[:, :3].sum() - 0.3 * n + rng.normal(0, 0.3)
        self.value = score if kind == "reg" else float(np.clip(int(score + k / 2), 0, k - 1))


def batches(pool, rng, steps):
    for _ in range(steps):
        mols = [pool[i] for i in rng.choice(len(pool), BATCH, replace=False)]
        yield {
            "atoms": torch.from_numpy(np.stack([m.atoms for m in mols])),
            "adj": torch.from_numpy(np.stack([m.adj for m in mols])),
            "mask": torch.from_numpy(np.stack([m.mask for m in mols])),
            "value": torch.tensor([m.value for m in mols], dtype=torch.float32),
            "assay": [m.assay for m in mols],
        }


class GIN(nn.Module):
    def __init__(self, dim=32, layers=2):
        super().__init__()
        self.inp = nn.Linear(ATOM_FEATS, dim)
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim), nn.SiLU()) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))

    def forward(self, atoms, adj, mask):
        h = self.inp(atoms)
        for mlp, norm in zip(self.mlps, self.norms):
            h = norm(h + mlp(adj @ h))
        m = mask.unsqueeze(-1)
        return (h * m).sum(1) / m.sum(1)


class MultiAssay(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.encoder = GIN(dim)
        self.heads = nn.ModuleDict({name: nn.Linear(dim, k) for name, (_, k) in ASSAYS.items()})

    def forward(self, batch):
        return self.encoder(batch["atoms"], batch["adj"], batch["mask"])


def head_loss(kind, out, value):
    if kind == "reg":
        return F.huber_loss(out.squeeze(1), value, reduction="none")
    if kind == "ord":
        levels = torch.arange(out.shape[1], device=out.device)
        target = (value[:, None] > levels - 0.5).float()
        return F.binary_cross_entropy_with_logits(out, target, reduction="none").mean(1)
    target = value.clamp(0, out.shape[1] - 1).long()
    return F.cross_entropy(out, target, reduction="none")


def to_device(batch, device):
    out = {k: v.to(device) for k, v in batch.items() if torch.is_tensor(v)}
    out["assay"] = batch["assay"]
    # one 0/1 column per assay, so that every head sees the whole batch
    out["select"] = {
        name: torch.tensor([float(a == name) for a in batch["assay"]]).to(device) for name in ASSAYS
    }
    return out


def train():
    random.seed(17)
    torch.manual_seed(17)
    rng = np.random.default_rng(17)
    device = torch_xla.device()
    pool = [Molecule(rng) for _ in range(600)]
    model = MultiAssay().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-3)

    seen = Counter()
    for step, cpu_batch in enumerate(batches(pool, rng, STEPS), 1):
        with torch_xla.step():
            batch = to_device(cpu_batch, device)
            opt.zero_grad()
            emb = model(batch)
            counts = Counter(batch["assay"])
            seen.update(counts)
            total = torch.zeros((), device=device)
            per_assay = {}
            for name, _ in counts.most_common():
                sel = batch["select"][name]
                raw = head_loss(ASSAYS[name][0], model.heads[name](emb), batch["value"])
                per_assay[name] = (raw * sel).sum() / sel.sum().clamp(min=1)
                total = total + per_assay[name]
            total.backward()
            opt.step()
        if step % 8 == 0:
            parts = " ".join(f"{k}={v.item():.3f}" for k, v in sorted(per_assay.items()))
            print(f"step {step} total {total.item():.3f} {parts}")
    print("records per assay:", dict(sorted(seen.items())))


if __name__ == "__main__":
    train()
