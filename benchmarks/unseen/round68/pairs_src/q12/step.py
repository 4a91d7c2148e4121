import math
import os

import numpy as np
import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

MAX_ATOMS = 48
EDGE_MULTIPLE = 32
CUTOFF = 3.0
ELEMENTS = np.array([1, 6, 7, 8])


def random_molecule(rng):
    n = int(rng.integers(5, 11))
    pos = rng.normal(size=(n, 3)) * 1.4
    z = rng.choice(ELEMENTS, size=n)
    d = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
    src, dst = np.nonzero((d < CUTOFF) & (d > 0))
    return dict(z=z, pos=pos, src=src, dst=dst, energy=-z.sum() * 0.1 + rng.normal() * 0.01)


def round_up(n, m):
    return -(-n // m) * m


def collate(mols):
    z = np.zeros(MAX_ATOMS, np.int64)
    pos = np.zeros((MAX_ATOMS, 3), np.float32)
    owner = np.full(MAX_ATOMS, len(mols), np.int64)
    atom_mask = np.zeros(MAX_ATOMS, np.float32)
    src, dst, off = [], [], 0
    for g, m in enumerate(mols):
        n = len(m["z"])
        z[off:off + n] = m["z"]
        pos[off:off + n] = m["pos"]
        owner[off:off + n] = g
        atom_mask[off:off + n] = 1
        src.append(m["src"] + off)
        dst.append(m["dst"] + off)
        off += n
    src, dst = np.concatenate(src), np.concatenate(dst)
    pad = round_up(len(src), EDGE_MULTIPLE) - len(src)
    edge_mask = np.concatenate([np.ones(len(src)), np.zeros(pad)]).astype(np.float32)
    src = np.concatenate([src, np.full(pad, MAX_ATOMS - 1)])
    dst = np.concatenate([dst, np.full(pad, MAX_ATOMS - 1)])
    y = np.array([m["energy"] for m in mols], np.float32)
    arrays = dict(z=z, pos=pos, owner=owner, atom_mask=atom_mask,
                  src=src, dst=dst, edge_mask=edge_mask, y=y)
    return {k: torch.from_numpy(v) for k, v in arrays.items()}


class ShiftedSoftplus(nn.Module):
    def forward(self, x):
        return nn.functional.softplus(x) - math.log(2.0)


class GaussianBasis(nn.Module):
    def __init__(self, n, stop):
        super().__init__()
        mu = torch.linspace(0, stop, n)
        self.register_buffer("mu", mu)
        self.coeff = -0.5 / float(mu[1] - mu[0]) ** 2

    def forward(self, d):
        return torch.exp(self.coeff * (d.unsqueeze(-1) - self.mu) ** 2)


class Interaction(nn.Module):
    def __init__(self, hidden, n_rbf):
        super().__init__()
        self.filt = nn.Sequential(nn.Linear(n_rbf, hidden), ShiftedSoftplus(), nn.Linear(hidden, hidden))
        self.pre = nn.Linear(hidden, hidden, bias=False)
        self.post = nn.Sequential(nn.Linear(hidden, hidden), ShiftedSoftplus(), nn.Linear(hidden, hidden))

    def forward(self, h, rbf, envelope, src, dst):
        w = self.filt(rbf) * envelope.unsqueeze(-1)
        msg = self.pre(h).index_select(0, src) * w
        agg = torch.zeros_like(h).index_add(0, dst, msg)
        return h + self.post(agg)


class SchNet(nn.Module):
    def __init__(self, hidden=16, n_rbf=8, n_layers=2, max_z=10):
        super().__init__()
        self.embed = nn.Embedding(max_z, hidden, padding_idx=0)
        self.basis = GaussianBasis(n_rbf, CUTOFF)
        self.layers = nn.ModuleList(Interaction(hidden, n_rbf) for _ in range(n_layers))
        self.out = nn.Sequential(nn.Linear(hidden, hidden // 2), ShiftedSoftplus(), nn.Linear(hidden // 2, 1))

    def forward(self, b, n_graphs):
        diff = b["pos"].index_select(0, b["src"]) - b["pos"].index_select(0, b["dst"])
        dist = torch.sqrt((diff * diff).sum(-1) + 1e-8)
        env = 0.5 * (torch.cos(dist * math.pi / CUTOFF) + 1) * b["edge_mask"]
        rbf = self.basis(dist)
        h = self.embed(b["z"])
        for layer in self.layers:
            h = layer(h, rbf, env, b["src"], b["dst"])
        e_atom = self.out(h).squeeze(-1) * b["atom_mask"]
        e = torch.zeros(n_graphs + 1, device=e_atom.device).index_add(0, b["owner"], e_atom)
        return e[:n_graphs]


def train(n_steps=7, graphs_per_batch=4):
    rng = np.random.default_rng(int(os.environ.get("SEED", 3)))
    torch.manual_seed(0)
    dev = xm.xla_device()
    net = SchNet().to(dev)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, amsgrad=True)
    xm.mark_step()
    for step in range(n_steps):
        host = collate([random_molecule(rng) for _ in range(graphs_per_batch)])
        batch = {k: v.to(dev) for k, v in host.items()}
        pred = net(batch, graphs_per_batch)
        loss = nn.functional.smooth_l1_loss(pred, batch["y"])
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        print(step, float(loss), met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    train()
