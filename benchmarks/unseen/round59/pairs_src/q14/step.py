"""Energy and charge model for small molecules; two sources, padded edge lists."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_ATOMS, BATCH, BUCKET = 8, 3, 32


class Filter(nn.Module):
    def __init__(self, rbf, dim):
        super().__init__()
        self.a, self.b = nn.Linear(rbf, dim), nn.Linear(dim, dim)

    def forward(self, x):
        return self.b(F.softplus(self.a(x)) - 0.6931472)


class Interaction(nn.Module):
    def __init__(self, rbf, dim):
        super().__init__()
        self.filter = Filter(rbf, dim)
        self.lin = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, h, rbf, src, dst, valid):
        msg = self.lin(h)[src] * self.filter(rbf) * valid[:, None]
        agg = torch.zeros_like(h).index_add(0, dst, msg)
        return h + self.out(F.softplus(agg))


class EnergyModel(nn.Module):
    def __init__(self, dim=12, rbf=8, cutoff=2.2):
        super().__init__()
        self.embed = nn.Embedding(20, dim)
        self.blocks = nn.ModuleList([Interaction(rbf, dim) for _ in range(2)])
        self.head = nn.Linear(dim, 1)
        self.register_buffer("centers", torch.linspace(0, cutoff, rbf))
        self.cutoff = cutoff

    def forward(self, b):
        d = ((b["pos"][b["src"]] - b["pos"][b["dst"]]) ** 2).sum(-1).add(1e-8).sqrt()
        rbf = torch.exp(-4.0 * (d[:, None] - self.centers) ** 2)
        h = self.embed(b["z"])
        for block in self.blocks:
            h = block(h, rbf, b["src"], b["dst"], b["valid"])
        atom = self.head(h).squeeze(-1)
        return torch.zeros(BATCH, device=atom.device).index_add(0, b["mol"], atom)


def molecule(rng, spread):
    pos = rng.normal(size=(N_ATOMS, 3)).astype(np.float32) * spread
    return rng.integers(1, 9, N_ATOMS), pos


def qm_labels(rng, z):
    return np.float32(-0.4 * z.sum() + rng.normal() * 0.1)


def dft_labels(rng, z):
    record = {"E_total": -0.4 * z.sum() * 27.2114 + rng.normal(), "E_atoms": -0.38 * z.sum() * 27.2114}
    return (record["E_total"] - record["E_atoms"]) / 27.2114


SOURCES = {"qm": (0.9, qm_labels), "dft": (0.7, dft_labels)}


def collate(source, rng, cutoff=2.2):
    spread, label = SOURCES[source]
    zs, ps, src, dst, mol, energy = [], [], [], [], [], []
    for m in range(BATCH):
        z, pos = molecule(rng, spread)
        dist = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
        i, j = np.nonzero((dist < cutoff) & (dist > 0))
        src.append(i + m * N_ATOMS)
        dst.append(j + m * N_ATOMS)
        zs.append(z)
        ps.append(pos)
        mol += [m] * N_ATOMS
        energy.append(label(rng, z))
    src, dst = np.concatenate(src), np.concatenate(dst)
    pad = -len(src) % BUCKET
    valid = np.r_[np.ones(len(src)), np.zeros(pad)].astype(np.float32)
    return {
        "z": torch.from_numpy(np.concatenate(zs)),
        "pos": torch.from_numpy(np.concatenate(ps)),
        "src": torch.from_numpy(np.r_[src, np.zeros(pad, np.int64)]),
        "dst": torch.from_numpy(np.r_[dst, np.zeros(pad, np.int64)]),
        "valid": torch.from_numpy(valid),
        "mol": torch.tensor(mol),
        "energy": torch.from_numpy(np.stack(energy)),
    }


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    device = torch_xla.device()
    model = EnergyModel().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch_xla.sync()
    for step in range(10):
        batch = collate("dft" if step % 4 == 3 else "qm", rng)
        batch = {k: v.to(device) for k, v in batch.items()}
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(batch) / N_ATOMS, batch["energy"] / N_ATOMS)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        torch_xla.sync()
        if step % 3 == 2:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
