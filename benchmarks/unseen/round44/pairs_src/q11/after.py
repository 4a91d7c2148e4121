"""Continuous-filter message passing for per-molecule energies (SchNet style).

usage: after.py OUT.hlo
"""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_MOL, N_ATOM, N_EDGE = 3, 10, 26
HID, N_RBF, CUTOFF = 8, 6, 4.0


def shifted_softplus(x):
    return F.softplus(x) - math.log(2.0)


class RadialBasis(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.0, CUTOFF, N_RBF))
        self.gamma = 1.7

    def forward(self, r):
        return torch.exp(-self.gamma * (r.unsqueeze(-1) - self.centers) ** 2)


class Interaction(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter1 = nn.Linear(N_RBF, HID)
        self.filter2 = nn.Linear(HID, HID)
        self.lin_in = nn.Linear(HID, HID, bias=False)
        self.lin_out = nn.Linear(HID, HID)

    def forward(self, h, rbf, envelope, edge_index):
        dst, src = edge_index[0], edge_index[1]
        w = self.filter2(shifted_softplus(self.filter1(rbf)))
        w = w * envelope.unsqueeze(-1)
        msg = self.lin_in(h).index_select(0, src) * w
        agg = torch.zeros_like(h).index_add(0, dst, msg)
        return h + self.lin_out(shifted_softplus(agg))


class SchNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, HID)
        self.rbf = RadialBasis()
        self.blocks = nn.ModuleList([Interaction(), Interaction()])
        self.head1 = nn.Linear(HID, HID // 2)
        self.head2 = nn.Linear(HID // 2, 1)

    def forward(self, z, pos, edge_index, mol):
        vec = pos.index_select(0, edge_index[1]) - pos.index_select(0, edge_index[0])
        r = torch.sqrt((vec * vec).sum(-1) + 1e-8)
        env = 0.5 * (torch.cos(r * (math.pi / CUTOFF)) + 1.0)
        env = env * (r < CUTOFF).to(r.dtype)
        rbf = self.rbf(r)
        h = self.embed(z)
        for block in self.blocks:
            h = block(h, rbf, env, edge_index)
        atom_e = self.head2(shifted_softplus(self.head1(h))).squeeze(-1)
        return torch.zeros(N_MOL, device=h.device).index_add(0, mol, atom_e)


def make_batch(g):
    z = torch.randint(1, 9, (N_ATOM,), generator=g)
    pos = torch.randn(N_ATOM, 3, generator=g)
    ei = torch.randint(0, N_ATOM, (2, N_EDGE), generator=g)
    mol = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
    y = torch.randn(N_MOL, generator=g)
    return z, pos, ei, mol, y


def live_tensors(model, opt, extra):
    out = list(extra)
    for p in model.parameters():
        out.append(p)
        if p.grad is not None:
            out.append(p.grad)
        st = opt.state.get(p, {})
        out += [st[k] for k in sorted(st) if torch.is_tensor(st[k]) and st[k].device.type == "xla"]
    return out


def main(path, steps=3):
    torch.manual_seed(5)
    dev = torch_xla.device()
    model = SchNet().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(1)
    for step in range(steps):
        z, pos, ei, mol, y = [t.to(dev) for t in make_batch(g)]
        opt.zero_grad(set_to_none=True)
        energy = model(z, pos, ei, mol)
        loss = F.smooth_l1_loss(energy, y)
        loss.backward()
        opt.step()
        if step == steps - 1:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, [loss]))
            with open(path, "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
