"""Graph convolution regressor for small molecules in a dense padded batch."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_ATOM_TYPES = 9


def normalize_adjacency(adj, mask):
    adj = adj + torch.diag_embed(mask)
    deg = adj.sum(dim=-1)
    inv_sqrt = deg.clamp(min=1.0).rsqrt() * mask
    return inv_sqrt.unsqueeze(-1) * adj * inv_sqrt.unsqueeze(-2)


class GraphConv(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.lin = nn.Linear(n_in, n_out)
        self.norm = nn.LayerNorm(n_out)

    def forward(self, x, adj, mask):
        h = torch.bmm(adj, self.lin(x))
        return F.relu(self.norm(h)) * mask.unsqueeze(-1)


class MoleculeGCN(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.atom = nn.Embedding(N_ATOM_TYPES, dim)
        self.charge = nn.Linear(1, dim, bias=False)
        self.convs = nn.ModuleList([GraphConv(dim, dim) for _ in range(layers)])
        self.readout = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, atoms, charge, bonds, mask):
        adj = normalize_adjacency(bonds, mask)
        x = (self.atom(atoms) + self.charge(charge.unsqueeze(-1))) * mask.unsqueeze(-1)
        for conv in self.convs:
            x = x + conv(x, adj, mask)
        count = mask.sum(dim=1, keepdim=True)
        mean = x.sum(dim=1) / count
        peak = x.masked_fill(mask.unsqueeze(-1) == 0, -1e9).amax(dim=1)
        return self.readout(torch.cat([mean, peak], dim=-1)).squeeze(-1)


def molecules(batch_size, max_atoms, rng):
    n = rng.integers(5, max_atoms + 1, batch_size)
    mask = (np.arange(max_atoms)[None] < n[:, None]).astype(np.float32)
    bonds = np.zeros((batch_size, max_atoms, max_atoms), np.float32)
    for b in range(batch_size):
        for i in range(1, n[b]):
            j = rng.integers(max(0, i - 3), i)
            bonds[b, i, j] = bonds[b, j, i] = 1.0
    atoms = rng.integers(0, N_ATOM_TYPES, (batch_size, max_atoms)) * mask.astype(np.int64)
    charge = rng.normal(0.0, 0.3, (batch_size, max_atoms)).astype(np.float32) * mask
    target = (charge ** 2).sum(1) + 0.1 * bonds.sum((1, 2)) / n
    return [torch.from_numpy(a) for a in (atoms, charge, bonds, mask, target.astype(np.float32))]


def train_step(model, optimizer, atoms, charge, bonds, mask, target):
    optimizer.zero_grad()
    pred = model(atoms, charge, bonds, mask)
    loss = F.smooth_l1_loss(pred, target)
    loss.backward()
    optimizer.step()
    mae = (pred.detach() - target).abs().mean()
    return loss.detach(), mae


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=24)
    ap.add_argument("--layers", type=int, default=3)
    ap.add_argument("--max-atoms", type=int, default=12)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--steps", type=int, default=5)
    args = ap.parse_args()

    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    device = torch_xla.device()
    model = MoleculeGCN(args.dim, args.layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    torch_xla.sync()
    for step in range(args.steps):
        batch = [t.to(device) for t in molecules(args.batch_size, args.max_atoms, rng)]
        loss, mae = train_step(model, optimizer, *batch)
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.5f} mae {mae.item():.5f}", flush=True)


if __name__ == "__main__":
    main()
