"""Tabular GAN (credit-scoring style table) with lazy R1 and an EMA generator."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = dict(
    z_dim=16,
    hidden=48,
    batch=64,
    steps=64,
    lr_g=1e-3,
    lr_d=2e-3,
    r1_gamma=2.0,
    r1_every=4,
    ema=0.98,
    snapshot_every=8,
)


def make_table(n, seed):
    """Mixed table: 4 numeric columns, one 3-way and one 5-way categorical."""
    rng = np.random.default_rng(seed)
    segment = rng.integers(0, 3, n)
    income = rng.normal(segment * 0.8, 0.4)
    age = rng.normal(0.3 * segment, 1.0)
    debt = 0.5 * income + rng.normal(0, 0.3, n)
    score = np.tanh(income - debt) + rng.normal(0, 0.1, n)
    region = (segment + rng.integers(0, 3, n)) % 5
    num = np.stack([income, age, debt, score], 1)
    num = (num - num.mean(0)) / num.std(0)
    table = np.concatenate([num, np.eye(3)[segment], np.eye(5)[region]], 1)
    return torch.tensor(table, dtype=torch.float32)


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return x + F.silu(self.fc(self.norm(x)))


class Generator(nn.Module):
    def __init__(self, z_dim, hidden):
        super().__init__()
        self.inp = nn.Linear(z_dim, hidden)
        self.body = nn.Sequential(Residual(hidden), Residual(hidden))
        self.num = nn.Linear(hidden, 4)
        self.cat = nn.ModuleList([nn.Linear(hidden, 3), nn.Linear(hidden, 5)])

    def forward(self, z, tau=0.5):
        h = self.body(self.inp(z))
        cols = [self.num(h)]
        cols += [F.softmax(head(h) / tau, dim=-1) for head in self.cat]
        return torch.cat(cols, 1)


class Critic(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(12, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


@torch.no_grad()
def update_ema(ema, model, decay):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.mul_(decay).add_(p, alpha=1 - decay)


class Trainer:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.G = Generator(cfg["z_dim"], cfg["hidden"]).to(device)
        self.D = Critic(cfg["hidden"]).to(device)
        self.G_ema = copy.deepcopy(self.G).eval().requires_grad_(False)
        self.opt_g = torch.optim.Adam(self.G.parameters(), cfg["lr_g"], betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.D.parameters(), cfg["lr_d"], betas=(0.0, 0.99))
        self.fixed_z = torch.randn(128, cfg["z_dim"]).to(device)

    def noise(self):
        return torch.randn(self.cfg["batch"], self.cfg["z_dim"]).to(self.device)

    def d_step(self, real, regularize):
        self.D.requires_grad_(True)
        with torch.no_grad():
            fake = self.G(self.noise())
        loss = F.softplus(self.D(fake)).mean() + F.softplus(-self.D(real)).mean()
        if regularize:
            real = real.detach().requires_grad_(True)
            (grad,) = torch.autograd.grad(self.D(real).sum(), real, create_graph=True)
            r1 = grad.pow(2).sum(1).mean()
            loss = loss + 0.5 * self.cfg["r1_gamma"] * self.cfg["r1_every"] * r1
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.detach()

    def g_step(self):
        self.D.requires_grad_(False)
        loss = F.softplus(-self.D(self.G(self.noise()))).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        update_ema(self.G_ema, self.G, self.cfg["ema"])
        return loss.detach()

    @torch.no_grad()
    def snapshot(self, real_corr):
        rows = self.G_ema(self.fixed_z).cpu()
        corr = torch.corrcoef(rows[:, :4].T)
        return (corr - real_corr).abs().mean().item()


def main(cfg):
    torch.manual_seed(0)
    device = torch_xla.device()
    table = make_table(2048, seed=7)
    real_corr = torch.corrcoef(table[:, :4].T)
    order = torch.Generator().manual_seed(3)
    trainer = Trainer(cfg, device)

    for step in range(cfg["steps"]):
        pick = torch.randint(0, len(table), (cfg["batch"],), generator=order)
        real = table[pick].to(device)
        d_loss = trainer.d_step(real, regularize=step % cfg["r1_every"] == 0)
        torch_xla.sync()
        g_loss = trainer.g_step()
        torch_xla.sync()
        if (step + 1) % cfg["snapshot_every"] == 0:
            gap = trainer.snapshot(real_corr)
            print(f"{step + 1:3d} d {d_loss.item():.3f} g {g_loss.item():.3f} corr-gap {gap:.3f}")


if __name__ == "__main__":
    main(CFG)
