"""Graph regression: predicts a scalar property of small molecules with a message passing net.

Graphs of a batch are merged in one big graph; node and edge arrays are padded.
"""
import random

import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

NUM_ATOM_TYPES = 9
NUM_BOND_TYPES = 4
MAX_NODES = 128


class RandomMolecules(Dataset):
    def __init__(self, n, seed=0):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            size = rng.randint(5, 14)
            atoms = [rng.randrange(NUM_ATOM_TYPES) for _ in range(size)]
            bonds = [(i, rng.randrange(i)) for i in range(1, size)]
            for _ in range(rng.randint(0, 3)):
                i, j = rng.sample(range(size), 2)
                bonds.append((i, j))
            kinds = [rng.randrange(NUM_BOND_TYPES) for _ in bonds]
            target = sum(atoms) / size + 0.1 * len(bonds)
            self.items.append((atoms, bonds, kinds, target))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def round_up(n, multiple):
    return (n + multiple - 1) // multiple * multiple


def collate(graphs):
    """Merges graphs; the last node slot is a sink for padded edges."""
    atom, owner, src, dst, kind, y = [], [], [], [], [], []
    for g, (atoms, bonds, kinds, target) in enumerate(graphs):
        off = len(atom)
        atom += atoms
        owner += [g] * len(atoms)
        for (i, j), k in zip(bonds, kinds):
            src += [off + i, off + j]
            dst += [off + j, off + i]
            kind += [k, k]
        y.append(target)
    n_pad = MAX_NODES - len(atom)
    e_pad = round_up(len(src), 32) - len(src)
    atom += [0] * n_pad
    owner += [len(graphs)] * n_pad
    src += [MAX_NODES - 1] * e_pad
    dst += [MAX_NODES - 1] * e_pad
    kind += [0] * e_pad
    to = lambda v: torch.tensor(v, dtype=torch.long)
    return to(atom), to(owner), to(src), to(dst), to(kind), torch.tensor(y)


class MessageLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bond = nn.Embedding(NUM_BOND_TYPES, dim)
        self.msg = nn.Linear(2 * dim, dim)
        self.upd = nn.GRUCell(dim, dim)

    def forward(self, h, src, dst, kind):
        m = F.relu(self.msg(torch.cat([h[src], self.bond(kind)], dim=-1)))
        agg = torch.zeros_like(h).index_add(0, dst, m)
        return self.upd(agg, h)


class MolNet(nn.Module):
    def __init__(self, dim=24, layers=2):
        super().__init__()
        self.embed = nn.Embedding(NUM_ATOM_TYPES, dim)
        self.layers = nn.ModuleList(MessageLayer(dim) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, atom, owner, src, dst, kind, n_graphs):
        h = self.embed(atom)
        for layer in self.layers:
            h = layer(h, src, dst, kind)
        pooled = torch.zeros(n_graphs + 1, h.shape[-1], device=h.device)
        pooled = pooled.index_add(0, owner, h)
        return self.head(pooled[:n_graphs]).squeeze(-1)


def run_epoch(model, loader, opt, device):
    total, count = 0.0, 0
    for batch in loader:
        atom, owner, src, dst, kind, y = [t.to(device) for t in batch]
        opt.zero_grad()
        pred = model(atom, owner, src, dst, kind, y.shape[0])
        loss = F.smooth_l1_loss(pred, y)
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        total, count = total + loss.item(), count + 1
    return total / count


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    loader = DataLoader(RandomMolecules(64), batch_size=8, collate_fn=collate, drop_last=True)
    model = MolNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    for epoch in range(2):
        mae = run_epoch(model, loader, opt, device)
        xm.master_print(f"epoch {epoch}: huber {mae:.4f}")


if __name__ == "__main__":
    main()
