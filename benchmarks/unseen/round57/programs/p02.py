"""Message-passing network for molecular property regression (three targets), fixed-budget batches."""
import random
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

MAX_ATOMS = 160      # per packed batch
MAX_BONDS = 384      # directed
MOLS = 8

Packed = namedtuple("Packed", "atom_type charge edge_index bond_type bond_mask mol_id target")


def random_molecule(rng):
    """A random tree with a few ring closures; targets depend on composition and on topology."""
    n = rng.randint(8, 18)
    atoms = [rng.choices([1, 2, 3, 4, 5], weights=[10, 3, 3, 1, 1])[0] for _ in range(n)]
    bonds = [(i, rng.randint(max(0, i - 3), i - 1), rng.choices([1, 2], weights=[5, 1])[0])
             for i in range(1, n)]
    for _ in range(rng.randint(0, 3)):
        a, b = rng.sample(range(n), 2)
        bonds.append((a, b, 3))
    y = [sum(atoms) / 30.0, len(bonds) / n, sum(b[2] == 3 for b in bonds) / 2.0]
    return atoms, bonds, y


def pack(mols):
    """Disjoint union padded to the atom and bond budgets; the last atom slot is a dump node."""
    atom_type = torch.zeros(MAX_ATOMS, dtype=torch.long)
    charge = torch.zeros(MAX_ATOMS)
    edge = torch.full((2, MAX_BONDS), MAX_ATOMS - 1, dtype=torch.long)
    bond_type = torch.zeros(MAX_BONDS, dtype=torch.long)
    bond_mask = torch.zeros(MAX_BONDS)
    mol_id = torch.full((MAX_ATOMS,), MOLS, dtype=torch.long)
    off, e = 0, 0
    for g, (atoms, bonds, _) in enumerate(mols):
        n = len(atoms)
        atom_type[off:off + n] = torch.tensor(atoms)
        charge[off:off + n] = torch.tensor([0.1 * (a - 2) for a in atoms])
        mol_id[off:off + n] = g
        for a, b, t in bonds:
            for u, v in ((a, b), (b, a)):
                edge[0, e], edge[1, e] = off + u, off + v
                bond_type[e], bond_mask[e] = t, 1.0
                e += 1
        off += n
    return Packed(atom_type, charge, edge, bond_type, bond_mask, mol_id,
                  torch.tensor([m[2] for m in mols]))


class EdgeConv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.msg = nn.Sequential(nn.Linear(3 * dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.gate = nn.Linear(dim, 1)
        self.upd = nn.GRUCell(dim, dim)

    def forward(self, h, edge_index, e, mask):
        src, dst = edge_index[0], edge_index[1]
        m = self.msg(torch.cat([h[src], h[dst], e], -1))
        m = m * torch.sigmoid(self.gate(m)) * mask.unsqueeze(-1)
        agg = torch.zeros_like(h).index_add(0, dst, m)
        return self.upd(agg, h)


def drop_edges(edge_index, bond_type, mask, p, training):
    if not training or p == 0.0:
        return edge_index, bond_type, mask
    half = torch.rand(edge_index.shape[1] // 2, device=edge_index.device) >= p
    keep = half.repeat_interleave(2)      # both directions of a bond share their fate
    return edge_index[:, keep], bond_type[keep], mask[keep] / (1.0 - p)


class MolNet(nn.Module):
    def __init__(self, dim=24, layers=2, targets=3, edge_drop=0.0, feat_drop=0.1):
        super().__init__()
        self.atom = nn.Embedding(6, dim, padding_idx=0)
        self.bond = nn.Embedding(4, dim, padding_idx=0)
        self.charge = nn.Linear(1, dim)
        self.convs = nn.ModuleList(EdgeConv(dim) for _ in range(layers))
        self.edge_drop = edge_drop
        self.drop = nn.Dropout(feat_drop)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.SiLU(),
                                  nn.Linear(dim, targets))

    def forward(self, b):
        h = self.atom(b.atom_type) + self.charge(b.charge.unsqueeze(-1))
        edge_index, bond_type, mask = drop_edges(b.edge_index, b.bond_type, b.bond_mask,
                                                 self.edge_drop, self.training)
        e = self.bond(bond_type)
        for conv in self.convs:
            h = h + self.drop(conv(h, edge_index, e, mask))
        pooled = torch.zeros(MOLS + 1, h.shape[1], device=h.device).index_add(0, b.mol_id, h)
        return self.head(pooled[:MOLS])


def evaluate(model, batches, device):
    model.eval()
    err = torch.zeros(3, device=device)
    with torch.no_grad():
        for b in batches:
            b = Packed(*[t.to(device) for t in b])
            err += (model(b) - b.target).abs().mean(0)
            xm.mark_step()
    model.train()
    return (err / len(batches)).cpu()


def main():
    torch.manual_seed(11)
    rng = random.Random(11)
    xm.set_rng_state(11)
    device = torch_xla.device()

    train = [random_molecule(rng) for _ in range(MOLS * 14)]
    val = [pack([random_molecule(rng) for _ in range(MOLS)]) for _ in range(3)]
    y = torch.tensor([m[2] for m in train])
    mean, std = y.mean(0).to(device), y.std(0).to(device)

    model = MolNet(edge_drop=0.15).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    step = 0
    for epoch in range(2):
        rng.shuffle(train)
        for i in range(0, len(train), MOLS):
            batch = Packed(*[t.to(device) for t in pack(train[i:i + MOLS])])
            opt.zero_grad()
            pred = model(batch)
            loss = F.smooth_l1_loss(pred, (batch.target - mean) / std)
            loss.backward()
            opt.step()
            xm.mark_step()
            step += 1
            if step % 10 == 0:
                print(f"step {step:3d} loss {loss.item():.4f}")
        mae = evaluate(model, val, device)
        print(f"epoch {epoch} val mae {[round(v, 3) for v in mae.tolist()]}")


if __name__ == "__main__":
    main()
