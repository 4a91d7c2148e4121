"""Continuous-filter message passing for small molecules, energies only."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_MOL, ATOMS, HID, N_RBF, CUTOFF = 3, 5, 12, 8, 5.0


class ShiftedSoftplus(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = math.log(2.0)

    def forward(self, x):
        return F.softplus(x) - self.shift


class RBF(nn.Module):
    def __init__(self, n, stop):
        super().__init__()
        mu = torch.linspace(0.0, stop, n)
        self.coeff = -0.5 / float(mu[1] - mu[0]) ** 2
        self.register_buffer("mu", mu)

    def forward(self, d):
        return torch.exp(self.coeff * (d.unsqueeze(-1) - self.mu) ** 2)


class CFConv(nn.Module):
    def __init__(self, hid, n_rbf, cutoff):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(n_rbf, hid), ShiftedSoftplus(), nn.Linear(hid, hid))
        self.lin_in = nn.Linear(hid, hid, bias=False)
        self.lin_out = nn.Linear(hid, hid)
        self.act = ShiftedSoftplus()
        self.cutoff = cutoff

    def forward(self, h, edge_index, dist, rbf):
        src, dst = edge_index[0], edge_index[1]
        c = 0.5 * (torch.cos(dist * math.pi / self.cutoff) + 1.0)
        c = c * (dist < self.cutoff).to(c.dtype)
        w = self.filter(rbf) * c.unsqueeze(-1)
        msg = self.lin_in(h).index_select(0, dst) * w
        agg = torch.zeros_like(h).index_add(0, src, msg)
        return h + self.lin_out(self.act(agg))


class MolNet(nn.Module):
    def __init__(self, n_species=10):
        super().__init__()
        self.emb = nn.Embedding(n_species, HID)
        self.rbf = RBF(N_RBF, CUTOFF)
        self.blocks = nn.ModuleList(CFConv(HID, N_RBF, CUTOFF) for _ in range(2))
        self.head = nn.Sequential(nn.Linear(HID, HID // 2), ShiftedSoftplus(), nn.Linear(HID // 2, 1))
        self.atom_ref = nn.Embedding(n_species, 1)

    def forward(self, z, pos, edge_index, batch):
        delta = pos.index_select(0, edge_index[0]) - pos.index_select(0, edge_index[1])
        dist = (delta.pow(2).sum(-1) + 1e-8).sqrt()
        rbf = self.rbf(dist)
        h = self.emb(z)
        for block in self.blocks:
            h = block(h, edge_index, dist, rbf)
        e = (self.head(h) + self.atom_ref(z)).squeeze(-1)
        return torch.zeros(N_MOL, device=e.device).index_add(0, batch, e)


def make_batch(gen, dev):
    n = N_MOL * ATOMS
    z = torch.randint(1, 10, (n,), generator=gen)
    pos = torch.randn(n, 3, generator=gen) * 2
    batch = torch.arange(N_MOL).repeat_interleave(ATOMS)
    # directed neighbour list: every atom listens to its 3 nearest
    d = torch.cdist(pos, pos) + 1e4 * (batch[:, None] != batch[None, :]) + 1e4 * torch.eye(n)
    nbr = d.topk(3, largest=False).indices
    dst = torch.arange(n).repeat_interleave(3)
    edge_index = torch.stack([nbr.reshape(-1), dst])
    target = torch.randn(N_MOL, generator=gen)
    return [t.to(dev) for t in (z, pos, edge_index, batch, target)]


def pending(model, opt, extra):
    out = list(extra)
    for p in model.parameters():
        out.append(p)
        out += [v for _, v in sorted(opt.state[p].items())
                if torch.is_tensor(v) and v.device.type == "xla"]
    return out


def main(path, steps=3):
    dev = torch_xla.device()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = MolNet().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=5e-4)
    torch_xla.sync()
    for step in range(steps):
        z, pos, ei, batch, y = make_batch(gen, dev)
        opt.zero_grad()
        e = model(z, pos, ei, batch)
        loss = F.l1_loss(e, y)
        loss.backward()
        gnorm = nn.utils.clip_grad_norm_(model.parameters(), 10.0, foreach=False)
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(
                    pending(model, opt, [loss.detach(), gnorm])))
        torch_xla.sync()
        print(step, loss.item(), gnorm.item())


if __name__ == "__main__":
    main(sys.argv[1])
