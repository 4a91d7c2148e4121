"""Energy / dipole regression with a SchNet-like network on a mix of two molecular data sources."""
import math
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CUTOFF = 3.2
MAX_ATOMS = 40
EDGE_BLOCK = 64
MOLS_PER_BATCH = 4

Molecule = namedtuple("Molecule", "z pos energy dipole")


def shifted_softplus(x):
    return F.softplus(x) - math.log(2.0)


class RadialBasis(nn.Module):
    def __init__(self, n, cutoff):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.0, cutoff, n))
        self.gamma = 0.5 * (n / cutoff) ** 2
        self.cutoff = cutoff

    def forward(self, d):
        envelope = 0.5 * (torch.cos(d * math.pi / self.cutoff) + 1.0)
        rbf = torch.exp(-self.gamma * (d[:, None] - self.centers[None, :]) ** 2)
        return rbf, envelope[:, None]


class Interaction(nn.Module):
    def __init__(self, dim, n_rbf):
        super().__init__()
        self.filter1 = nn.Linear(n_rbf, dim)
        self.filter2 = nn.Linear(dim, dim)
        self.lin_in = nn.Linear(dim, dim, bias=False)
        self.lin_out = nn.Linear(dim, dim)
        self.lin_res = nn.Linear(dim, dim)

    def forward(self, h, src, dst, rbf, env):
        w = self.filter2(shifted_softplus(self.filter1(rbf))) * env
        msg = self.lin_in(h).index_select(0, src) * w
        agg = torch.zeros_like(h).index_add(0, dst, msg)
        return h + self.lin_res(shifted_softplus(self.lin_out(agg)))


class AtomNet(nn.Module):
    def __init__(self, dim=24, n_rbf=12, n_layers=2):
        super().__init__()
        self.embed = nn.Embedding(18, dim, padding_idx=0)
        self.rbf = RadialBasis(n_rbf, CUTOFF)
        self.blocks = nn.ModuleList(Interaction(dim, n_rbf) for _ in range(n_layers))
        self.energy_head = nn.Sequential(nn.Linear(dim, dim // 2), nn.SiLU(), nn.Linear(dim // 2, 1))
        self.charge_head = nn.Linear(dim, 1)

    def forward(self, g):
        vec = g["pos"].index_select(0, g["dst"]) - g["pos"].index_select(0, g["src"])
        dist = torch.sqrt((vec * vec).sum(-1) + 1e-9)
        rbf, env = self.rbf(dist)
        env = env * g["edge_mask"][:, None]
        h = self.embed(g["z"])
        for block in self.blocks:
            h = block(h, g["src"], g["dst"], rbf, env)
        return h

    def energy(self, h, g):
        e = self.energy_head(h).squeeze(-1) * g["atom_mask"]
        return torch.zeros(MOLS_PER_BATCH, device=h.device).index_add(0, g["mol"], e)

    def dipole(self, h, g):
        q = self.charge_head(h) * g["atom_mask"][:, None]
        mu = torch.zeros(MOLS_PER_BATCH, 3, device=h.device).index_add(0, g["mol"], q * g["pos"])
        return torch.sqrt((mu * mu).sum(-1) + 1e-9)


class Source:
    def __init__(self, seed, has_dipole, density):
        self.rng = np.random.default_rng(seed)
        self.has_dipole = has_dipole
        self.density = density

    def draw(self):
        r = self.rng
        n = int(r.integers(7, 10))
        box = (n / self.density) ** (1 / 3)
        pos = r.uniform(0, box, (n, 3)).astype(np.float32)
        z = r.choice([1, 6, 7, 8], n)
        energy = np.float32(-0.3 * z.sum() + r.normal(0, 0.05))
        dipole = np.float32(abs(r.normal(1.5, 0.7))) if self.has_dipole else None
        return Molecule(z, pos, energy, dipole)


def collate(mols):
    z = np.zeros(MAX_ATOMS, np.int64)
    pos = np.zeros((MAX_ATOMS, 3), np.float32)
    mol = np.zeros(MAX_ATOMS, np.int64)
    atom_mask = np.zeros(MAX_ATOMS, np.float32)
    src, dst, start = [], [], 0
    for k, m in enumerate(mols):
        n = len(m.z)
        sl = slice(start, start + n)
        z[sl], pos[sl], mol[sl], atom_mask[sl] = m.z, m.pos, k, 1.0
        d = np.linalg.norm(m.pos[:, None] - m.pos[None], axis=-1)
        i, j = np.nonzero((d < CUTOFF) & ~np.eye(n, dtype=bool))
        src.append(i + start)
        dst.append(j + start)
        start += n
    src, dst = np.concatenate(src), np.concatenate(dst)
    cap = -(-len(src) // EDGE_BLOCK) * EDGE_BLOCK
    pad = cap - len(src)
    out = dict(
        z=z, pos=pos, mol=mol, atom_mask=atom_mask,
        src=np.pad(src, (0, pad)),
        dst=np.pad(dst, (0, pad)),
        edge_mask=np.pad(np.ones(len(src), np.float32), (0, pad)),
        energy=np.array([m.energy for m in mols]),
    )
    if all(m.dipole is not None for m in mols):
        out["dipole"] = np.array([m.dipole for m in mols])
    return {k: torch.from_numpy(v) for k, v in out.items()}


def batches(sources, n, rng):
    for _ in range(n):
        src = sources[rng.integers(len(sources))]
        yield collate([src.draw() for _ in range(MOLS_PER_BATCH)])


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    model = AtomNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01)
    sources = [Source(11, True, 0.32), Source(12, False, 0.32)]
    torch_xla.sync()

    for step, batch in enumerate(batches(sources, 16, np.random.default_rng(5))):
        g = {k: v.to(device) for k, v in batch.items()}
        h = model(g)
        loss = F.smooth_l1_loss(model.energy(h, g), g["energy"])
        if "dipole" in g:
            loss = loss + 0.2 * F.mse_loss(model.dipole(h, g), g["dipole"])
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, len(batch["src"]), "dipole" in batch, round(loss.item(), 4))


if __name__ == "__main__":
    main()
