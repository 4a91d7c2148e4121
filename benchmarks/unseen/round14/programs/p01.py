"""Message-passing network for molecular property regression (synthetic graphs).

Graphs are merged into one disjoint union per batch, as in the usual geometric
learning libraries: node features are concatenated and edge indices are shifted.
"""
import argparse
import random
from dataclasses import dataclass
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

N_ATOM_TYPES = 9
N_BOND_TYPES = 4


@dataclass
class Molecule:
    atoms: torch.Tensor       # [n] int64
    edge_index: torch.Tensor  # [2, e] int64
    bonds: torch.Tensor       # [e] int64
    target: float


def make_molecule(rng: random.Random) -> Molecule:
    n = rng.randint(6, 18)
    atoms = torch.tensor([rng.randrange(N_ATOM_TYPES) for _ in range(n)])
    pairs = [(i, rng.randrange(i)) for i in range(1, n)]      # spanning tree
    for _ in range(rng.randint(0, 4)):                         # ring closures
        a, b = rng.sample(range(n), 2)
        pairs.append((a, b))
    src = [a for a, b in pairs] + [b for a, b in pairs]
    dst = [b for a, b in pairs] + [a for a, b in pairs]
    kinds = [rng.randrange(N_BOND_TYPES) for _ in pairs] * 2
    target = (atoms.float().mean() - 4.0).item() + 0.1 * len(pairs)
    return Molecule(atoms, torch.tensor([src, dst]), torch.tensor(kinds), target)


class MoleculeDataset(Dataset):
    def __init__(self, size: int, seed: int):
        rng = random.Random(seed)
        self.items = [make_molecule(rng) for _ in range(size)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        return self.items[idx]


def merge(molecules: List[Molecule]):
    """Disjoint union of a list of molecules."""
    atoms, edges, bonds, owner, offset = [], [], [], [], 0
    for g, mol in enumerate(molecules):
        n = mol.atoms.numel()
        atoms.append(mol.atoms)
        edges.append(mol.edge_index + offset)
        bonds.append(mol.bonds)
        owner.append(torch.full((n,), g))
        offset += n
    return {
        "atoms": torch.cat(atoms),
        "edge_index": torch.cat(edges, dim=1),
        "bonds": torch.cat(bonds),
        "owner": torch.cat(owner),
        "target": torch.tensor([m.target for m in molecules]),
    }


class EdgeConv(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU())
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, e, edge_index):
        src, dst = edge_index[0], edge_index[1]
        msg = self.message(torch.cat([h.index_select(0, src), e], dim=-1))
        agg = torch.zeros_like(h).index_add(0, dst, msg)
        return self.norm(h + agg)


class MPNN(nn.Module):
    def __init__(self, dim=24, depth=2):
        super().__init__()
        self.atom_emb = nn.Embedding(N_ATOM_TYPES, dim)
        self.bond_emb = nn.Embedding(N_BOND_TYPES, dim)
        self.layers = nn.ModuleList(EdgeConv(dim) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, batch, num_graphs: int):
        h = self.atom_emb(batch["atoms"])
        e = self.bond_emb(batch["bonds"])
        for layer in self.layers:
            h = layer(h, e, batch["edge_index"])
        pooled = h.new_zeros(num_graphs, h.size(1)).index_add(0, batch["owner"], h)
        return self.readout(pooled).squeeze(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()

    torch.manual_seed(11)
    device = torch_xla.device()
    loader = DataLoader(MoleculeDataset(80, seed=3), batch_size=args.batch_size,
                        shuffle=True, drop_last=True, collate_fn=merge)
    model = MPNN().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)

    for epoch in range(args.epochs):
        total = torch.zeros((), device=device)
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            pred = model(batch, args.batch_size)
            loss = F.smooth_l1_loss(pred, batch["target"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach()
            torch_xla.sync()
        print(f"epoch {epoch}: mean loss {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
