"""Message-passing network for a molecular energy surrogate."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

NUM_ELEMENTS = 5


@dataclass
class Molecule:
    z: np.ndarray
    edge_index: np.ndarray
    dist: np.ndarray
    energy: float


def random_molecule(rng):
    n = int(rng.integers(5, 15))
    pos = np.cumsum(rng.normal(0, 0.8, (n, 3)), axis=0)
    z = rng.integers(0, NUM_ELEMENTS, n)
    d = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
    src, dst = np.nonzero((d < 2.5) & ~np.eye(n, dtype=bool))
    pair = d[src, dst]
    energy = 0.3 * (z - 2.0).sum() + 0.25 * (np.exp(-pair) * (1 + (z[src] == z[dst]))).sum()
    return Molecule(z, np.stack([src, dst]), pair.astype(np.float32), float(energy) / 3.0)


def collate(molecules):
    z, edges, dist, owner, offset = [], [], [], [], 0
    for i, mol in enumerate(molecules):
        z.append(mol.z)
        edges.append(mol.edge_index + offset)
        dist.append(mol.dist)
        owner.append(np.full(len(mol.z), i))
        offset += len(mol.z)
    return {
        "z": torch.from_numpy(np.concatenate(z)),
        "edge_index": torch.from_numpy(np.concatenate(edges, axis=1)),
        "dist": torch.from_numpy(np.concatenate(dist)),
        "owner": torch.from_numpy(np.concatenate(owner)),
        "energy": torch.tensor([m.energy for m in molecules], dtype=torch.float32),
    }


class RadialBasis(nn.Module):
    def __init__(self, num_basis=12, cutoff=2.5):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.0, cutoff, num_basis))
        self.gamma = (num_basis / cutoff) ** 2

    def forward(self, dist):
        return torch.exp(-self.gamma * (dist[:, None] - self.centers) ** 2)


class Interaction(nn.Module):
    def __init__(self, dim, num_basis):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(num_basis, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.update = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, x, edge_index, basis):
        src, dst = edge_index[0], edge_index[1]
        messages = x.index_select(0, src) * self.filter(basis)
        pooled = torch.zeros_like(x).index_add(0, dst, messages)
        return x + self.update(torch.cat([x, pooled], dim=1))


class EnergyNet(nn.Module):
    def __init__(self, dim=24, num_basis=12, depth=1):
        super().__init__()
        self.embed = nn.Embedding(NUM_ELEMENTS, dim)
        self.basis = RadialBasis(num_basis)
        self.layers = nn.ModuleList(Interaction(dim, num_basis) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, batch, num_graphs):
        x = self.embed(batch["z"])
        basis = self.basis(batch["dist"])
        for layer in self.layers:
            x = layer(x, batch["edge_index"], basis)
        atomwise = self.readout(x).squeeze(-1)
        return atomwise.new_zeros(num_graphs).index_add(0, batch["owner"], atomwise)


class ErrorTracker:
    """Mean absolute error and worst batch so far, kept on the device between reports."""

    def __init__(self):
        self.batches = []

    def update(self, pred, target):
        self.batches.append((pred.detach() - target).abs().mean())

    def summary(self):
        errors = torch.stack(self.batches)
        return errors.mean().item(), errors.max().item()


def main(steps=30, batch_size=8, report_every=5):
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    device = torch_xla.device()
    train_set = [random_molecule(rng) for _ in range(400)]

    model = EnergyNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.2, total_iters=10)
    tracker = ErrorTracker()

    for step in range(1, steps + 1):
        chosen = rng.choice(len(train_set), batch_size, replace=False)
        batch = collate([train_set[i] for i in chosen])
        batch = {name: value.to(device) for name, value in batch.items()}

        pred = model(batch, batch_size)
        loss = F.smooth_l1_loss(pred, batch["energy"])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        warmup.step()
        tracker.update(pred, batch["energy"])
        torch_xla.sync()

        if step % report_every == 0:
            mean, worst = tracker.summary()
            print(f"step {step:3d}  loss {loss.item():.4f}  mae {mean:.4f}  worst batch {worst:.4f}")


if __name__ == "__main__":
    main()
