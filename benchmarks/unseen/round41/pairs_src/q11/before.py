"""Continuous-filter message passing on small molecules, energy regression."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def shifted_softplus(x):
    return F.softplus(x) - math.log(2.0)


class RadialBasis(nn.Module):
    def __init__(self, n_rbf=12, cutoff=5.0):
        super().__init__()
        self.cutoff = cutoff
        self.register_buffer("centers", torch.linspace(0.0, cutoff, n_rbf))
        self.gamma = n_rbf / cutoff

    def forward(self, d):
        return torch.exp(-self.gamma * (d.unsqueeze(-1) - self.centers) ** 2)

    def envelope(self, d):
        return 0.5 * (torch.cos(math.pi * d / self.cutoff) + 1.0) * (d < self.cutoff).to(d.dtype)


class Interaction(nn.Module):
    def __init__(self, dim, n_rbf):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(n_rbf, dim), nn.Tanh())
        self.inp = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, h, rbf, env, edge_index):
        src, dst = edge_index[0], edge_index[1]
        w = self.filter(rbf) * env.unsqueeze(-1)
        m = self.inp(h).index_select(0, src) * w
        agg = torch.zeros_like(h).index_add(0, dst, m)
        return h + self.out(shifted_softplus(agg))


class MolNet(nn.Module):
    def __init__(self, dim=16, n_rbf=12, depth=2, n_types=10):
        super().__init__()
        self.embed = nn.Embedding(n_types, dim)
        self.rbf = RadialBasis(n_rbf)
        self.blocks = nn.ModuleList(Interaction(dim, n_rbf) for _ in range(depth))
        self.read = nn.Linear(dim, 8)
        self.energy = nn.Linear(8, 1, bias=False)

    def forward(self, z, pos, edge_index, mol, n_mol):
        vec = pos.index_select(0, edge_index[0]) - pos.index_select(0, edge_index[1])
        d = (vec.pow(2).sum(-1) + 1e-8).sqrt()
        rbf, env = self.rbf(d), self.rbf.envelope(d)
        h = self.embed(z)
        for block in self.blocks:
            h = block(h, rbf, env, edge_index)
        e = self.energy(shifted_softplus(self.read(h))).squeeze(-1)
        return torch.zeros(n_mol, device=e.device).index_add(0, mol, e)


def batch(gen, n_mol=4, atoms=6, edges=48):
    n = n_mol * atoms
    z = torch.randint(1, 10, (n,), generator=gen)
    pos = torch.randn(n, 3, generator=gen)
    mol = torch.arange(n) // atoms
    owner = torch.randint(0, n_mol, (edges,), generator=gen) * atoms
    ei = torch.stack([owner + torch.randint(0, atoms, (edges,), generator=gen),
                      owner + torch.randint(0, atoms, (edges,), generator=gen)])
    y = torch.randn(n_mol, generator=gen)
    return [t.to("xla") for t in (z, pos, ei, mol, y)]


def main(path):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = MolNet().to("xla")
    opt = torch.optim.Adam(model.parameters(), lr=5e-4, betas=(0.9, 0.98))
    for step in range(4):
        z, pos, ei, mol, y = batch(gen)
        xm.mark_step()
        opt.zero_grad()
        pred = model(z, pos, ei, mol, 4)
        loss = F.huber_loss(pred, y, delta=0.3)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        if step == 3:
            live = [loss.detach()] + list(model.parameters())
            for p in model.parameters():
                live += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            open(path, "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
