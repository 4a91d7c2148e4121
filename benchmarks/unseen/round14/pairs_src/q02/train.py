# Solubility regression on small molecules with a message-passing network.
# Molecules are merged into one big disconnected graph per batch, as usual;
# the atom table has a fixed number of rows so that pooling is cheap.
import math
import random

import torch
from torch import nn
import torch_xla

CONFIG = {
    "atom_types": 9,
    "bond_types": 4,
    "hidden": 24,
    "rounds": 3,
    "mols_per_batch": 6,
    "atom_rows": 96,
    "lr": 2e-3,
    "steps": 22,
    "seed": 5,
}


class Molecule:
    """Atom types, a bond list (both directions) and the measured log-solubility."""

    def __init__(self, atoms, bonds, bond_kind, target):
        self.atoms = atoms
        self.bonds = bonds
        self.bond_kind = bond_kind
        self.target = target

    @classmethod
    def sample(cls, rng, cfg):
        n = rng.randint(7, 14)
        atoms = [rng.randrange(1, cfg["atom_types"]) for _ in range(n)]
        pairs = [(rng.randrange(i), i) for i in range(1, n)]
        for _ in range(rng.randint(0, 5)):          # ring closures
            i, j = rng.sample(range(n), 2)
            if (i, j) not in pairs and (j, i) not in pairs:
                pairs.append((i, j))
        kinds = [rng.randrange(cfg["bond_types"]) for _ in pairs]
        bonds = pairs + [(j, i) for i, j in pairs]
        target = -0.3 * n + rng.gauss(0.0, 0.4)
        return cls(atoms, bonds, kinds + kinds, target)


def round_up(n, k):
    return k * math.ceil(n / k)


def merge(mols, cfg):
    """One disconnected graph; the last atom row is a sink for padding bonds."""
    rows = cfg["atom_rows"]
    atoms = torch.zeros(rows, dtype=torch.long)
    owner = torch.full((rows,), len(mols), dtype=torch.long)
    src, dst, kind = [], [], []
    offset = 0
    for m_id, mol in enumerate(mols):
        n = len(mol.atoms)
        atoms[offset:offset + n] = torch.tensor(mol.atoms)
        owner[offset:offset + n] = m_id
        src += [i + offset for i, _ in mol.bonds]
        dst += [j + offset for _, j in mol.bonds]
        kind += mol.bond_kind
        offset += n
    n_bonds = round_up(len(src), 16)
    fill = n_bonds - len(src)
    src += [rows - 1] * fill
    dst += [rows - 1] * fill
    kind += [0] * fill
    targets = torch.tensor([m.target for m in mols])
    return atoms, owner, torch.tensor(src), torch.tensor(dst), torch.tensor(kind), targets


class MessageLayer(nn.Module):
    def __init__(self, hidden, bond_types):
        super().__init__()
        self.bond = nn.Embedding(bond_types, hidden)
        self.msg = nn.Linear(hidden, hidden)
        self.update = nn.GRUCell(hidden, hidden)

    def forward(self, h, src, dst, kind):
        m = torch.relu(self.msg(h[src]) + self.bond(kind))
        agg = torch.zeros_like(h).scatter_add(0, dst.unsqueeze(1).expand_as(m), m)
        return self.update(agg, h)


class SolubilityNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n_mols = cfg["mols_per_batch"]
        self.atom = nn.Embedding(cfg["atom_types"], cfg["hidden"])
        self.layers = nn.ModuleList(
            MessageLayer(cfg["hidden"], cfg["bond_types"]) for _ in range(cfg["rounds"]))
        self.readout = nn.Sequential(nn.Linear(cfg["hidden"], cfg["hidden"]), nn.SiLU(),
                                     nn.Linear(cfg["hidden"], 1))

    def forward(self, atoms, owner, src, dst, kind):
        h = self.atom(atoms)
        for layer in self.layers:
            h = layer(h, src, dst, kind)
        membership = nn.functional.one_hot(owner, self.n_mols + 1).to(h.dtype)
        pooled = (membership.t() @ h)[: self.n_mols]
        return self.readout(pooled).squeeze(-1)


def run(cfg):
    torch.manual_seed(cfg["seed"])
    rng = random.Random(cfg["seed"])
    device = torch_xla.device()
    dataset = [Molecule.sample(rng, cfg) for _ in range(300)]

    net = SolubilityNet(cfg).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
    criterion = nn.SmoothL1Loss(beta=1.5)
    for step in range(cfg["steps"]):
        batch = merge(rng.sample(dataset, cfg["mols_per_batch"]), cfg)
        *inputs, target = [t.to(device) for t in batch]
        opt.zero_grad()
        loss = criterion(net(*inputs), target)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if (step + 1) % 10 == 0:
            print(f"[{step + 1}] loss={loss.item():.3f}")


if __name__ == "__main__":
    run(CONFIG)
