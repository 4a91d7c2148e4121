"""Message passing network, energies of small molecules, one training step."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_ATOMS, N_EDGES, N_MOLS, HID, RBF = 40, 120, 6, 16, 8


class RadialBasis(nn.Module):
    def __init__(self, n=RBF, cutoff=5.0):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.0, cutoff, n))
        self.gamma = n / cutoff
        self.cutoff = cutoff

    def forward(self, dist):
        env = 0.5 * (torch.cos(dist * (3.14159265 / self.cutoff)) + 1.0)
        env = env * (dist < self.cutoff).to(dist.dtype)
        rb = torch.exp(-self.gamma * (dist.unsqueeze(-1) - self.centers) ** 2)
        return rb * env.unsqueeze(-1)


class Interaction(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter1 = nn.Linear(RBF, HID)
        self.filter2 = nn.Linear(HID, HID)
        self.lin_in = nn.Linear(HID, HID, bias=False)
        self.lin_out = nn.Linear(HID, HID)

    def forward(self, h, src, dst, rbf):
        w = self.filter2(F.softplus(self.filter1(rbf)))
        msg = self.lin_in(h).index_select(0, src) * w
        agg = torch.zeros_like(h).index_add(0, dst, msg)
        deg = torch.zeros(h.size(0), device=h.device).index_add(
            0, src, torch.ones(src.size(0), device=h.device)
        )
        agg = agg / deg.clamp(min=1.0).sqrt().unsqueeze(-1)
        return h + self.lin_out(F.softplus(agg))


class EnergyNet(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.embed = nn.Embedding(10, HID)
        self.rbf = RadialBasis()
        self.blocks = nn.ModuleList([Interaction() for _ in range(layers)])
        self.head1 = nn.Linear(HID, HID // 2)
        self.head2 = nn.Linear(HID // 2, 1)

    def forward(self, z, pos, src, dst, mol):
        vec = pos.index_select(0, dst) - pos.index_select(0, src)
        dist = (vec.pow(2).sum(-1) + 1e-8).sqrt()
        rbf = self.rbf(dist)
        h = self.embed(z)
        for blk in self.blocks:
            h = blk(h, src, dst, rbf)
        e_atom = self.head2(F.softplus(self.head1(h))).squeeze(-1)
        return torch.zeros(N_MOLS, device=pos.device).index_add(0, mol, e_atom)


def batch(seed):
    g = torch.Generator().manual_seed(seed)
    return (
        torch.randint(1, 10, (N_ATOMS,), generator=g),
        torch.randn(N_ATOMS, 3, generator=g) * 2,
        torch.randint(0, N_ATOMS, (N_EDGES,), generator=g),
        torch.randint(0, N_ATOMS, (N_EDGES,), generator=g),
        torch.sort(torch.randint(0, N_MOLS, (N_ATOMS,), generator=g)).values,
        torch.randn(N_MOLS, generator=g),
    )


def live(model, opt, *extra):
    out = list(extra)
    for p in model.parameters():
        out.append(p.data)
        if p.grad is not None:
            out.append(p.grad)
        for v in opt.state.get(p, {}).values():
            if torch.is_tensor(v) and v.device.type == "xla":
                out.append(v)
    return out


def main(path):
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = EnergyNet().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    for it in range(3):
        z, pos, src, dst, mol, y = [t.to(dev) for t in batch(it)]
        torch_xla.sync()
        opt.zero_grad()
        pred = model(z, pos, src, dst, mol)
        loss = F.smooth_l1_loss(pred, y)
        loss.backward()
        opt.step()
        if it == 2:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss, pred)))
        torch_xla.sync()
        print(it, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
