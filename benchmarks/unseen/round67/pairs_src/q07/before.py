"""Crystal graph network: formation energy and band gap from padded neighbour lists."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

ATOMS, NEIGH, CELLS = 10, 6, 4
ELEMENTS, RBF = 20, 12


class RadialBasis(nn.Module):
    def __init__(self, n=RBF, cutoff=6.0):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.0, cutoff, n))
        self.gamma = (n / cutoff) ** 2

    def forward(self, d):
        return torch.exp(-self.gamma * (d[..., None] - self.centers) ** 2)


class CrystalConv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.full = nn.Linear(2 * dim + RBF, 2 * dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, nbr, bond):
        b, n, d = h.shape
        idx = nbr.reshape(b, -1, 1).expand(-1, -1, d)
        hj = torch.gather(h, 1, idx).view(b, n, NEIGH, d)
        hi = h[:, :, None].expand(-1, -1, NEIGH, -1)
        gate, core = self.full(torch.cat([hi, hj, bond], dim=-1)).chunk(2, dim=-1)
        msg = torch.sigmoid(gate) * F.softplus(core)
        return F.softplus(h + self.norm(msg.sum(2)))


class CrystalNet(nn.Module):
    def __init__(self, dim=16, depth=2):
        super().__init__()
        self.embed = nn.Embedding(ELEMENTS, dim)
        self.rbf = RadialBasis()
        self.convs = nn.ModuleList(CrystalConv(dim) for _ in range(depth))
        self.mlp = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(2 * dim, 2)

    def forward(self, z, nbr, dist, mask):
        h = self.embed(z)
        bond = self.rbf(dist)
        for conv in self.convs:
            h = conv(h, nbr, bond)
        h = h * mask[..., None]
        pooled = h.mean(1)
        return self.out(F.softplus(self.mlp(pooled)))


def crystals(seed):
    g = torch.Generator().manual_seed(seed)
    count = torch.randint(4, ATOMS + 1, (CELLS,), generator=g)
    mask = (torch.arange(ATOMS)[None] < count[:, None]).float()
    z = torch.randint(1, ELEMENTS, (CELLS, ATOMS), generator=g)
    nbr = (torch.rand(CELLS, ATOMS, NEIGH, generator=g) * count[:, None, None]).long()
    dist = 1.5 + 4.5 * torch.rand(CELLS, ATOMS, NEIGH, generator=g)
    y = torch.randn(CELLS, 2, generator=g)
    return z, nbr, dist, mask, y


def make_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-3)


def main():
    torch.manual_seed(5)
    device = xm.xla_device()
    model = CrystalNet().to(device).train()
    opt = make_optimizer(model)
    torch_xla.sync()
    for step in range(4):
        z, nbr, dist, mask, y = (t.to(device) for t in crystals(step))
        opt.zero_grad()
        pred = model(z, nbr, dist, mask)
        loss = F.smooth_l1_loss(pred, y, beta=0.5)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, met.counter_value("UncachedCompile"), round(loss.item(), 4))


if __name__ == "__main__":
    main()
