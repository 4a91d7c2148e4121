"""Solubility regression on padded molecule graphs (message passing + GRU update)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_ATOMS, N_BONDS, ATOM_F, BOND_F, HID, ROUNDS = 9, 20, 11, 4, 16, 2


class EdgeNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1 = nn.Linear(BOND_F, HID)
        self.lin2 = nn.Linear(HID, HID)

    def forward(self, bonds):
        return torch.sigmoid(self.lin2(F.silu(self.lin1(bonds))))


class MPNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(ATOM_F, HID)
        self.edge = EdgeNetwork()
        self.cell_x = nn.Linear(HID, 3 * HID)
        self.cell_h = nn.Linear(HID, 3 * HID)
        self.norm = nn.LayerNorm(HID)
        self.out1 = nn.Linear(HID, HID)
        self.out2 = nn.Linear(HID, 1)

    def update(self, m, h):
        xr, xz, xn = self.cell_x(m).chunk(3, dim=-1)
        hr, hz, hn = self.cell_h(h).chunk(3, dim=-1)
        r = torch.sigmoid(xr + hr)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1.0 - z) * n + z * h

    def forward(self, atoms, bonds, src, dst, atom_mask, bond_mask):
        h = torch.tanh(self.embed(atoms))
        gate = self.edge(bonds) * bond_mask.unsqueeze(-1)
        src_i = src.unsqueeze(-1).expand(-1, -1, HID)
        dst_i = dst.unsqueeze(-1).expand(-1, -1, HID)
        for _ in range(ROUNDS):
            msg = torch.gather(h, 1, src_i) * gate
            agg = torch.zeros_like(h).scatter_add(1, dst_i, msg)
            h = self.update(agg, h)
        h = self.norm(h)
        graph = h.mean(dim=1)
        return self.out2(F.silu(self.out1(graph))).squeeze(-1)


def batch(gen, size=6):
    n = torch.randint(4, N_ATOMS + 1, (size,), generator=gen)
    atom_mask = (torch.arange(N_ATOMS)[None] < n[:, None]).float()
    bond_mask = (torch.arange(N_BONDS)[None] < (2 * n)[:, None]).float()
    src = (torch.randint(0, 10_000, (size, N_BONDS), generator=gen) % n[:, None]).long()
    dst = (torch.randint(0, 10_000, (size, N_BONDS), generator=gen) % n[:, None]).long()
    atoms = torch.randn(size, N_ATOMS, ATOM_F, generator=gen) * atom_mask.unsqueeze(-1)
    bonds = torch.randn(size, N_BONDS, BOND_F, generator=gen)
    y = torch.randn(size, generator=gen)
    return atoms, bonds, src, dst, atom_mask, bond_mask, y


def main(out):
    device = xm.xla_device()
    torch.manual_seed(11)
    model = MPNN().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-5)
    gen = torch.Generator().manual_seed(5)
    for step in range(4):
        atoms, bonds, src, dst, amask, bmask, y = [t.to(device) for t in batch(gen)]
        opt.zero_grad()
        pred = model(atoms, bonds, src, dst, amask, bmask)
        loss = F.smooth_l1_loss(pred, y)
        loss.backward()
        opt.step()
        if step == 3:
            live = list(model.parameters())
            for p in model.parameters():
                live += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            live.append(loss)
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
