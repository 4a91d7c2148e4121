"""Property regression on small molecules with an edge-conditioned MPNN."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

NUM_ELEMENTS = 9
NUM_BONDS = 4
MAX_ATOMS = 22


class RandomMolecules(Dataset):
    """Random trees with a few ring closures; the target depends on atoms and bonds."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        charge = rng.normal(size=NUM_ELEMENTS)
        strength = np.array([1.0, 1.8, 2.4, 1.3])
        self.items = []
        for _ in range(n):
            atoms = rng.integers(0, NUM_ELEMENTS, size=rng.integers(6, MAX_ATOMS + 1))
            pairs = [(i, int(rng.integers(max(0, i - 3), i))) for i in range(1, len(atoms))]
            for _ in range(rng.integers(0, 4)):
                a, b = rng.choice(len(atoms), size=2, replace=False)
                pairs.append((int(a), int(b)))
            bonds = rng.integers(0, NUM_BONDS, size=len(pairs))
            y = sum(strength[t] * charge[atoms[a]] * charge[atoms[b]] for (a, b), t in zip(pairs, bonds))
            src = [a for a, _ in pairs] + [b for _, b in pairs]
            dst = [b for _, b in pairs] + [a for a, _ in pairs]
            self.items.append((atoms, np.array([src, dst]), np.concatenate([bonds, bonds]), y / 5.0))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(samples):
    batch = len(samples)
    # one block of MAX_ATOMS rows per molecule, element 0 is reserved for padding
    atoms = torch.zeros(batch * MAX_ATOMS, dtype=torch.long)
    atom_mask = torch.zeros(batch * MAX_ATOMS)
    edges, bonds = [], []
    for i, (z, e, b, _) in enumerate(samples):
        lo = i * MAX_ATOMS
        atoms[lo:lo + len(z)] = torch.from_numpy(z) + 1
        atom_mask[lo:lo + len(z)] = 1.0
        edges.append(torch.from_numpy(e) + lo)
        bonds.append(torch.from_numpy(b))
    target = torch.tensor([s[3] for s in samples], dtype=torch.float32)
    return {
        "atoms": atoms,
        "atom_mask": atom_mask,
        "edge_index": torch.cat(edges, dim=1),
        "bonds": torch.cat(bonds),
        "target": target,
    }


class MessageLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bond = nn.Embedding(NUM_BONDS, dim)
        self.msg = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.update = nn.GRUCell(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, edge_index, bonds):
        src, dst = edge_index[0], edge_index[1]
        m = self.msg(torch.cat([h[src], h[dst]], dim=-1)) * torch.sigmoid(self.bond(bonds))
        agg = torch.zeros_like(h).index_add_(0, dst, m)
        return self.norm(self.update(agg, h))


class MPNN(nn.Module):
    def __init__(self, dim=32, layers=2):
        super().__init__()
        self.embed = nn.Embedding(NUM_ELEMENTS + 1, dim, padding_idx=0)
        self.layers = nn.ModuleList(MessageLayer(dim) for _ in range(layers))
        self.gate = nn.Linear(dim, 1)
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, batch):
        h = self.embed(batch["atoms"])
        for layer in self.layers:
            h = layer(h, batch["edge_index"], batch["bonds"])
        w = torch.sigmoid(self.gate(h)) * batch["atom_mask"][:, None]
        pooled = (w * h).view(-1, MAX_ATOMS, h.shape[-1]).sum(1)
        return self.readout(pooled).squeeze(-1)


def to_device(batch, device):
    return {k: v.to(device) for k, v in batch.items()}


def train_epoch(model, loader, optimizer, scheduler, device):
    model.train()
    total, n = torch.zeros((), device=device), 0
    for batch in loader:
        batch = to_device(batch, device)
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(batch), batch["target"])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        scheduler.step()
        total += loss.detach()
        n += 1
        torch_xla.sync()
    return total.item() / n


@torch.no_grad()
def mae(model, loader, device):
    model.eval()
    total, n = torch.zeros((), device=device), 0
    for batch in loader:
        batch = to_device(batch, device)
        total += (model(batch) - batch["target"]).abs().sum()
        n += batch["target"].numel()
        torch_xla.sync()
    return total.item() / n


def main():
    torch.manual_seed(11)
    device = torch_xla.device()
    train = DataLoader(RandomMolecules(144, 1), batch_size=16, shuffle=True, drop_last=True,
                       collate_fn=collate, generator=torch.Generator().manual_seed(11))
    valid = DataLoader(RandomMolecules(32, 2), batch_size=16, collate_fn=collate)
    model = MPNN().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    epochs = 2
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=epochs * len(train))
    for epoch in range(epochs):
        loss = train_epoch(model, train, optimizer, scheduler, device)
        print(f"epoch {epoch}  loss {loss:.4f}  val mae {mae(model, valid, device):.4f}")


if __name__ == "__main__":
    main()
