"""Learning pair energies of small molecules with a distance-based message network.

Molecules have 4 to 24 atoms; batches are drawn from size buckets and padded to
the bucket's edge.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BUCKETS = (8, 16, 24)
BATCH = 12
N_SPECIES = 4
STEPS = 66
EVAL_EVERY = 22


def make_molecule(n, rng):
    pos = np.zeros((n, 3))
    for i in range(1, n):
        direction = rng.normal(size=3)
        pos[i] = pos[rng.integers(0, i)] + 1.3 * direction / np.linalg.norm(direction)
    z = rng.integers(0, N_SPECIES, n)
    d = np.linalg.norm(pos[:, None] - pos[None], axis=-1) + np.eye(n) * 1e6
    charge = np.array([-0.6, 0.1, 0.4, 0.8])[z]
    energy = 0.5 * (charge[:, None] * charge[None] * np.exp(-d / 2) / np.maximum(d, 0.5)).sum()
    return z, pos.astype(np.float32), np.float32(energy)


class BucketedMolecules:
    """Full batches only; a molecule goes to the smallest bucket that holds it."""

    def __init__(self, n_mol, rng):
        self.rng = rng
        self.by_bucket = {b: [] for b in BUCKETS}
        for _ in range(n_mol):
            n = int(rng.integers(4, BUCKETS[-1] + 1))
            bucket = next(b for b in BUCKETS if n <= b)
            self.by_bucket[bucket].append(make_molecule(n, rng))

    def collate(self, mols, width):
        z = np.zeros((BATCH, width), np.int64)
        pos = np.zeros((BATCH, width, 3), np.float32)
        mask = np.zeros((BATCH, width), np.float32)
        energy = np.zeros(BATCH, np.float32)
        for i, (zi, pi, e) in enumerate(mols):
            z[i, : len(zi)], pos[i, : len(zi)], mask[i, : len(zi)] = zi, pi, 1.0
            energy[i] = e
        return tuple(torch.from_numpy(a) for a in (z, pos, mask, energy))

    def epoch(self, shuffle=True):
        batches = []
        for width, mols in self.by_bucket.items():
            order = self.rng.permutation(len(mols)) if shuffle else np.arange(len(mols))
            for i in range(0, len(order) - BATCH + 1, BATCH):
                batches.append((width, order[i : i + BATCH]))
        if shuffle:
            self.rng.shuffle(batches)
        for width, idx in batches:
            yield self.collate([self.by_bucket[width][j] for j in idx], width)

    def endless(self):
        while True:
            yield from self.epoch()


class Interaction(nn.Module):
    def __init__(self, dim, n_rbf):
        super().__init__()
        self.filt = nn.Sequential(nn.Linear(n_rbf, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.inp = nn.Linear(dim, dim)
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, h, rbf, pair):
        w = self.filt(rbf) * pair.unsqueeze(-1)
        msg = (w * self.inp(h).unsqueeze(1)).sum(2)
        return h + self.out(msg)


class EnergyNet(nn.Module):
    def __init__(self, dim=16, n_rbf=8, depth=2, cutoff=5.0):
        super().__init__()
        self.embed = nn.Embedding(N_SPECIES, dim)
        self.register_buffer("centers", torch.linspace(0.5, cutoff, n_rbf))
        self.layers = nn.ModuleList(Interaction(dim, n_rbf) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, z, pos, mask):
        width = z.size(1)
        eye = torch.eye(width, device=z.device)
        pair = mask.unsqueeze(1) * mask.unsqueeze(2) * (1 - eye)
        diff = pos.unsqueeze(1) - pos.unsqueeze(2)
        dist = (diff.pow(2).sum(-1) + eye).sqrt()
        rbf = torch.exp(-2.0 * (dist.unsqueeze(-1) - self.centers).pow(2))
        h = self.embed(z)
        for layer in self.layers:
            h = layer(h, rbf, pair)
        return (self.readout(h).squeeze(-1) * mask).sum(-1)


@torch.no_grad()
def evaluate(model, data, device):
    model.eval()
    total, count = torch.zeros((), device=device), 0
    for batch in data.epoch(shuffle=False):
        z, pos, mask, energy = (t.to(device) for t in batch)
        total = total + (model(z, pos, mask) - energy).abs().sum()
        count += BATCH
        xm.mark_step()
    model.train()
    return total.item() / count


def main(seed=19):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    device = torch_xla.device()
    train, val = BucketedMolecules(260, rng), BucketedMolecules(110, rng)
    model = EnergyNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=STEPS, eta_min=2e-4)
    xm.mark_step()

    stream = train.endless()
    for step in range(1, STEPS + 1):
        z, pos, mask, energy = (t.to(device) for t in next(stream))
        loss = F.huber_loss(model(z, pos, mask), energy)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        xm.mark_step()
        if step % EVAL_EVERY == 0:
            mae = evaluate(model, val, device)
            print(f"step {step} loss {loss.item():.4f} val mae {mae:.4f}")


if __name__ == "__main__":
    main()
