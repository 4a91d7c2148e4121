"""Formation-energy regression on synthetic perovskite-like cells with a small
SchNet-style message passing network."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 11
N_ATOMS = 12
BATCH = 6
STEPS = 40
CUTOFF = 2.6
N_RBF = 12
N_SPECIES = 5


class Crystals(torch.utils.data.Dataset):
    """Fractional coordinates + lattice lengths + species, target from a pair potential."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.frac = torch.rand(n, N_ATOMS, 3, generator=g)
        self.cell = 4.0 + 1.5 * torch.rand(n, 3, generator=g)
        self.z = torch.randint(0, N_SPECIES, (n, N_ATOMS), generator=g)
        charge = torch.linspace(-1.0, 1.0, N_SPECIES)[self.z]
        d = pair_distance(self.frac, self.cell) + torch.eye(N_ATOMS) * 1e3
        e = charge[:, :, None] * charge[:, None, :] * torch.exp(-d) / d.clamp(min=0.5)
        self.y = e.sum((1, 2)) / N_ATOMS

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.frac[i], self.cell[i], self.z[i], self.y[i]


def pair_distance(frac, cell):
    delta = frac[:, :, None, :] - frac[:, None, :, :]
    delta = delta - torch.round(delta)
    cart = delta * cell[:, None, None, :]
    return torch.sqrt((cart * cart).sum(-1) + 1e-8)


class RadialBasis(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.0, CUTOFF, N_RBF))
        self.gamma = (N_RBF / CUTOFF) ** 2

    def forward(self, d):
        env = 0.5 * (torch.cos(d * math.pi / CUTOFF) + 1.0)
        return torch.exp(-self.gamma * (d[..., None] - self.centers) ** 2) * env[..., None]


class Interaction(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(N_RBF, width), nn.Softplus(), nn.Linear(width, width))
        self.lin_in = nn.Linear(width, width, bias=False)
        self.lin_out = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, h, src, dst, rbf):
        msg = self.lin_in(h)[src] * self.filter(rbf)
        agg = torch.zeros_like(h).index_add(0, dst, msg)
        return h + self.lin_out(agg)


class CrystalNet(nn.Module):
    def __init__(self, width=24, depth=2):
        super().__init__()
        self.embed = nn.Embedding(N_SPECIES, width)
        self.rbf = RadialBasis()
        self.layers = nn.ModuleList(Interaction(width) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, frac, cell, z):
        b, n, _ = frac.shape
        dist = pair_distance(frac, cell)
        eye = torch.eye(n, dtype=torch.bool, device=frac.device)
        neighbours = (dist < CUTOFF) & ~eye
        g, i, j = neighbours.nonzero(as_tuple=True)
        src = g * n + j
        dst = g * n + i
        rbf = self.rbf(dist[g, i, j])
        h = self.embed(z).reshape(b * n, -1)
        for layer in self.layers:
            h = layer(h, src, dst, rbf)
        return self.readout(h).reshape(b, n).mean(1)


def infinite(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    ds = Crystals(96, SEED)
    loader = torch.utils.data.DataLoader(ds, batch_size=BATCH, shuffle=True, drop_last=True)
    y_mean, y_std = ds.y.mean().item(), ds.y.std().item()

    model = CrystalNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    running = torch.zeros((), device=device)

    batches = infinite(loader)
    for step in range(1, STEPS + 1):
        frac, cell, z, y = (t.to(device) for t in next(batches))
        frac = (frac + 0.01 * torch.randn_like(frac)) % 1.0
        target = (y - y_mean) / y_std
        opt.zero_grad(set_to_none=True)
        loss = F.smooth_l1_loss(model(frac, cell, z), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        running = 0.9 * running + 0.1 * loss.detach()
        torch_xla.sync()
        if step % 10 == 0:
            print(f"step {step:3d}  ema-loss {running.item():.4f}  lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
