import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEVICE = torch_xla.device()

N_MOL = 4
ATOMS = 6
N_EDGE = N_MOL * ATOMS * (ATOMS - 1)
N_NODE = N_MOL * ATOMS
SPECIES = 5


class EquivariantBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.phi_e = nn.Linear(2 * dim + 1, dim)
        self.phi_x = nn.Linear(dim, 1, bias=False)
        self.phi_h = nn.Linear(2 * dim, dim)
        nn.init.xavier_uniform_(self.phi_x.weight, gain=0.01)

    def forward(self, h, x, src, dst):
        rel = x[src] - x[dst]
        d2 = rel.pow(2).sum(-1, keepdim=True)
        m = F.silu(self.phi_e(torch.cat([h[src], h[dst], d2], dim=-1)))
        shift = rel / (d2.sqrt() + 1.0) * self.phi_x(m)
        x = x + torch.zeros_like(x).index_add_(0, dst, shift) / (ATOMS - 1)
        agg = torch.zeros_like(h).index_add_(0, dst, m)
        h = h + F.silu(self.phi_h(torch.cat([h, agg], dim=-1)))
        return h, x


class EnergyModel(nn.Module):
    def __init__(self, dim=12, depth=2):
        super().__init__()
        self.species = nn.Embedding(SPECIES, dim)
        self.blocks = nn.ModuleList([EquivariantBlock(dim) for _ in range(depth)])
        self.readout = nn.Linear(dim, 1)
        self.register_buffer("shift", torch.tensor(-1.2))
        self.register_buffer("scale", torch.tensor(0.7))

    def forward(self, z, x, src, dst):
        h = self.species(z)
        for block in self.blocks:
            h, x = block(h, x, src, dst)
        e = self.readout(h).view(N_MOL, ATOMS).sum(1)
        return e * self.scale + self.shift


def complete_graph():
    i = torch.arange(ATOMS)
    a, b = torch.meshgrid(i, i, indexing="ij")
    keep = a != b
    src, dst = a[keep], b[keep]
    off = (torch.arange(N_MOL) * ATOMS).view(-1, 1)
    return (src + off).flatten(), (dst + off).flatten()


def conformers(gen):
    z = torch.randint(0, SPECIES, (N_NODE,), generator=gen)
    x = torch.randn(N_NODE, 3, generator=gen) * 1.5
    e = torch.randn(N_MOL, generator=gen)
    return z.to(DEVICE), x.to(DEVICE), e.to(DEVICE)


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(22)
    src, dst = (t.to(DEVICE) for t in complete_graph())
    model = EnergyModel().to(DEVICE)
    opt = torch.optim.RAdam(model.parameters(), lr=1e-3, betas=(0.9, 0.999), weight_decay=1e-5)
    ema = [p.detach().clone() for p in model.parameters()]
    mae_sum = torch.zeros((), device=DEVICE)
    torch_xla.sync()

    for step in range(9):
        z, x, e = conformers(gen)
        pred = model(z, x, src, dst)
        loss = F.smooth_l1_loss(pred, e)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for avg, p in zip(ema, model.parameters()):
                avg.lerp_(p, 0.01)
            mae_sum += (pred - e).abs().mean()
        torch_xla.sync()
    print("mae", mae_sum.item() / 9)


if __name__ == "__main__":
    main()
