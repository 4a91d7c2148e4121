#!/usr/bin/env python
"""Solubility regression on small molecules with a message-passing network.

Graphs of one batch are concatenated into one big disconnected graph in the
usual way: node features, an edge list with shifted indices, and the graph id
of every node.
"""
import random
import sys
import time
from collections import namedtuple

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.distributed.parallel_loader as pl

Molecule = namedtuple("Molecule", "atoms bonds target")
N_ELEMENTS = 9


class MoleculeSet(Dataset):
    """Random trees with a few ring closures, 6 to 18 heavy atoms."""

    def __init__(self, size, seed):
        rnd = random.Random(seed)
        self.items = [self._molecule(rnd) for _ in range(size)]

    @staticmethod
    def _molecule(rnd):
        n = rnd.randint(6, 18)
        atoms = [rnd.randrange(N_ELEMENTS) for _ in range(n)]
        bonds = [(i, rnd.randrange(i)) for i in range(1, n)]
        for _ in range(rnd.randint(0, 3)):
            a, b = rnd.sample(range(n), 2)
            bonds.append((a, b))
        y = sum(a % 3 - 1 for a in atoms) / n ** 0.5 + 0.1 * len(bonds) / n
        return Molecule(atoms, bonds, y)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        return self.items[idx]


def collate(molecules):
    atoms, src, dst, owner, targets = [], [], [], [], []
    for g, mol in enumerate(molecules):
        shift = len(atoms)
        atoms.extend(mol.atoms)
        owner.extend([g] * len(mol.atoms))
        for a, b in mol.bonds:
            src += [a + shift, b + shift]
            dst += [b + shift, a + shift]
        targets.append(mol.target)
    return {
        "atoms": torch.tensor(atoms),
        "src": torch.tensor(src),
        "dst": torch.tensor(dst),
        "owner": torch.tensor(owner),
        "y": torch.tensor(targets, dtype=torch.float32),
    }


class MessageLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.message = nn.Linear(2 * dim, dim)
        self.update = nn.Linear(2 * dim, dim)

    def forward(self, h, src, dst):
        m = torch.relu(self.message(torch.cat([h[src], h[dst]], dim=-1)))
        pooled = torch.zeros_like(h).index_add(0, dst, m)
        return h + torch.relu(self.update(torch.cat([h, pooled], dim=-1)))


class SolubilityNet(nn.Module):
    def __init__(self, dim=24, depth=2):
        super().__init__()
        self.embed = nn.Embedding(N_ELEMENTS, dim)
        self.layers = nn.ModuleList(MessageLayer(dim) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, batch):
        h = self.embed(batch["atoms"])
        for layer in self.layers:
            h = layer(h, batch["src"], batch["dst"])
        graphs = batch["y"].shape[0]
        pooled = torch.zeros(graphs, h.shape[1], device=h.device).index_add(0, batch["owner"], h)
        return self.readout(pooled).squeeze(-1)


def run_epoch(model, loader, loss_fn, opt=None):
    """One pass; trains when an optimizer is given.  Returns the mean loss."""
    model.train(opt is not None)
    total, batches = None, 0
    with torch.set_grad_enabled(opt is not None):
        for batch in loader:
            loss = loss_fn(model(batch), batch["y"])
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            value = loss.detach()
            total = value if total is None else total + value
            batches += 1
    torch_xla.sync()
    return total.item() / batches


def main(epochs=3):
    torch.manual_seed(1)
    device = torch_xla.device()
    train = DataLoader(MoleculeSet(160, seed=1), batch_size=16, shuffle=True, drop_last=True)
    valid = DataLoader(MoleculeSet(48, seed=2), batch_size=16, drop_last=True)
    train.collate_fn = valid.collate_fn = collate
    train = pl.MpDeviceLoader(train, device)
    valid = pl.MpDeviceLoader(valid, device)

    model = SolubilityNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss_fn = nn.SmoothL1Loss()
    best = float("inf")
    for epoch in range(epochs):
        start = time.perf_counter()
        train_loss = run_epoch(model, train, loss_fn, opt)
        valid_loss = run_epoch(model, valid, loss_fn)
        mark = "*" if valid_loss < best else " "
        best = min(best, valid_loss)
        print(f"epoch {epoch} {mark} train {train_loss:.4f} valid {valid_loss:.4f} "
              f"({time.perf_counter() - start:.1f}s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
