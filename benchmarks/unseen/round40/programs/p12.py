"""Formation-energy regression on random crystal fragments with a SchNet-like
continuous-filter network (PyTorch/XLA)."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUM_ELEMENTS = 12
MAX_ATOMS = 96
GRAPHS_PER_BATCH = 6
CUTOFF = 2.2


class Structure:
    def __init__(self, numbers, positions, energy):
        self.numbers = numbers
        self.positions = positions
        self.energy = energy


def make_structures(count, rng):
    structures = []
    for _ in range(count):
        n = int(rng.integers(7, 15))
        numbers = rng.integers(1, NUM_ELEMENTS, size=n)
        positions = rng.normal(scale=1.4, size=(n, 3)).astype(np.float32)
        dist = np.linalg.norm(positions[:, None] - positions[None], axis=-1)
        pair = np.exp(-dist).sum() - n
        energy = 0.1 * numbers.sum() - 0.3 * pair
        structures.append(Structure(numbers, positions, np.float32(energy / n)))
    return structures


def radius_edges(positions, cutoff):
    dist = np.linalg.norm(positions[:, None] - positions[None], axis=-1)
    np.fill_diagonal(dist, np.inf)
    src, dst = np.nonzero(dist < cutoff)
    return src, dst, dist[src, dst].astype(np.float32)


def collate(structures):
    numbers = np.zeros(MAX_ATOMS, dtype=np.int64)
    graph_id = np.full(MAX_ATOMS, GRAPHS_PER_BATCH, dtype=np.int64)
    atom_mask = np.zeros(MAX_ATOMS, dtype=np.float32)
    src, dst, length = [], [], []
    offset = 0
    for i, s in enumerate(structures):
        n = len(s.numbers)
        numbers[offset:offset + n] = s.numbers
        graph_id[offset:offset + n] = i
        atom_mask[offset:offset + n] = 1.0
        a, b, d = radius_edges(s.positions, CUTOFF)
        src.append(a + offset)
        dst.append(b + offset)
        length.append(d)
        offset += n
    batch = {
        "numbers": numbers,
        "graph_id": graph_id,
        "atom_mask": atom_mask,
        "src": np.concatenate(src),
        "dst": np.concatenate(dst),
        "length": np.concatenate(length),
        "energy": np.array([s.energy for s in structures], dtype=np.float32),
    }
    return {k: torch.from_numpy(v) for k, v in batch.items()}


class RadialBasis(nn.Module):
    def __init__(self, num=16, cutoff=CUTOFF):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.0, cutoff, num))
        self.gamma = (num / cutoff) ** 2
        self.cutoff = cutoff

    def forward(self, length):
        envelope = 0.5 * (torch.cos(length * (np.pi / self.cutoff)) + 1.0)
        basis = torch.exp(-self.gamma * (length[:, None] - self.centers) ** 2)
        return basis * envelope[:, None]


class Interaction(nn.Module):
    def __init__(self, dim, num_basis):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(num_basis, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.inp = nn.Linear(dim, dim, bias=False)
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, h, src, dst, basis):
        message = self.inp(h)[src] * self.filter(basis)
        agg = torch.zeros_like(h).index_add(0, dst, message)
        return h + self.out(agg)


class EnergyNet(nn.Module):
    def __init__(self, dim=32, num_basis=16, layers=2):
        super().__init__()
        self.embed = nn.Embedding(NUM_ELEMENTS, dim)
        self.basis = RadialBasis(num_basis)
        self.blocks = nn.ModuleList(Interaction(dim, num_basis) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, batch):
        h = self.embed(batch["numbers"])
        basis = self.basis(batch["length"])
        for block in self.blocks:
            h = block(h, batch["src"], batch["dst"], basis)
        mask = batch["atom_mask"]
        atom_energy = self.head(h).squeeze(-1) * mask
        total = atom_energy.new_zeros(GRAPHS_PER_BATCH + 1)
        count = atom_energy.new_zeros(GRAPHS_PER_BATCH + 1)
        total = total.index_add(0, batch["graph_id"], atom_energy)
        count = count.index_add(0, batch["graph_id"], mask)
        return total[:-1] / count[:-1].clamp(min=1.0)


def main():
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    device = torch_xla.device()
    data = make_structures(72, rng)

    model = EnergyNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)

    step = 0
    for epoch in range(2):
        order = rng.permutation(len(data))
        running = torch.zeros((), device=device)
        for start in range(0, len(order), GRAPHS_PER_BATCH):
            batch = collate([data[i] for i in order[start:start + GRAPHS_PER_BATCH]])
            batch = {k: v.to(device) for k, v in batch.items()}
            optimizer.zero_grad()
            loss = F.smooth_l1_loss(model(batch), batch["energy"])
            loss.backward()
            xm.optimizer_step(optimizer)
            running += loss.detach()
            torch_xla.sync()
            step += 1
        mean = running.item() * GRAPHS_PER_BATCH / len(order)
        print(f"epoch {epoch} step {step} loss {mean:.4f}")


if __name__ == "__main__":
    main()
