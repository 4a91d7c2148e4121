"""Interatomic potential (continuous-filter convolutions), fitted to energies and forces."""
import sys
import math
import torch
import torch.nn as nn
import torch_xla

DEV = torch_xla.device()


class RadialBasis(nn.Module):
    def __init__(self, n_rbf, cutoff):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.0, cutoff, n_rbf))
        self.gamma = (n_rbf / cutoff) ** 2
        self.cutoff = cutoff

    def forward(self, d):
        rbf = torch.exp(-self.gamma * (d.unsqueeze(-1) - self.centers) ** 2)
        fcut = 0.5 * (torch.cos(math.pi * d / self.cutoff) + 1.0)
        fcut = fcut * (d < self.cutoff).to(d.dtype)
        return rbf, fcut


class Interaction(nn.Module):
    def __init__(self, dim, n_rbf):
        super().__init__()
        self.filter = nn.Linear(n_rbf, dim)
        self.in2f = nn.Linear(dim, dim, bias=False)
        self.f2out = nn.Linear(dim, dim)

    def forward(self, h, rbf, fcut, src, dst):
        w = torch.tanh(self.filter(rbf)) * fcut.unsqueeze(-1)
        msg = self.in2f(h).index_select(0, src) * w
        agg = torch.zeros_like(h).index_add(0, dst, msg)
        return h + torch.tanh(self.f2out(agg))


class Potential(nn.Module):
    def __init__(self, n_species=5, dim=8, n_rbf=6, n_inter=2, cutoff=4.0):
        super().__init__()
        self.embed = nn.Embedding(n_species, dim)
        self.rbf = RadialBasis(n_rbf, cutoff)
        self.inter = nn.ModuleList([Interaction(dim, n_rbf) for _ in range(n_inter)])
        self.out = nn.Linear(dim, 1)

    def forward(self, z, pos, src, dst, mol, n_mol):
        vec = pos.index_select(0, dst) - pos.index_select(0, src)
        d = torch.sqrt((vec * vec).sum(-1) + 1e-9)
        rbf, fcut = self.rbf(d)
        h = self.embed(z)
        for block in self.inter:
            h = block(h, rbf, fcut, src, dst)
        e_atom = self.out(h).squeeze(-1)
        return torch.zeros(n_mol, device=pos.device).index_add(0, mol, e_atom)


def energy_and_forces(model, batch, n_mol):
    pos = batch["pos"].detach().requires_grad_(True)
    energy = model(batch["z"], pos, batch["src"], batch["dst"], batch["mol"], n_mol)
    (grad_pos,) = torch.autograd.grad(energy.sum(), pos, create_graph=True)
    return energy, -grad_pos


def make_batch(gen, n_mol=3, n_at=4):
    n = n_mol * n_at
    src, dst = [], []
    for m in range(n_mol):
        for i in range(n_at):
            for j in range(n_at):
                if i != j:
                    src.append(m * n_at + i)
                    dst.append(m * n_at + j)
    b = dict(
        z=torch.randint(0, 5, (n,), generator=gen),
        pos=2.0 * torch.randn(n, 3, generator=gen),
        src=torch.tensor(src), dst=torch.tensor(dst),
        mol=torch.arange(n) // n_at,
        energy=torch.randn(n_mol, generator=gen),
        forces=torch.randn(n, 3, generator=gen),
    )
    return {k: v.to(DEV) for k, v in b.items()}


def main(out):
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(3)
    model = Potential().to(DEV)
    opt = torch.optim.Adam(model.parameters(), lr=5e-4)
    rho = 0.02
    for step in range(4):
        batch = make_batch(gen)
        torch_xla.sync()
        energy, forces = energy_and_forces(model, batch, 3)
        loss_e = ((energy - batch["energy"]) ** 2).mean()
        loss_f = ((forces - batch["forces"]) ** 2).sum(-1).mean()
        loss = rho * loss_e + (1.0 - rho) * loss_f
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == 3:
            live = [loss.detach(), loss_e.detach(), loss_f.detach(), energy.detach(), forces.detach()]
            for p in model.parameters():
                live += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), loss_e.item(), loss_f.item())


if __name__ == "__main__":
    main(sys.argv[1])
