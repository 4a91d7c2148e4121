"""Active learning of alloy hardness with an ensemble of small networks.

Each round the ensemble is fitted to what has been measured so far, then the
candidates on which its members disagree most are sent to the (simulated) lab.
"""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    members: int = 5
    hidden: int = 24
    pool: int = 256
    start: int = 16
    per_round: int = 4
    rounds: int = 13
    fit_steps: int = 5
    lr: float = 5e-3
    seed: int = 40


class Lab:
    """Hardness as a function of five element fractions, measured with noise."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.lin = self.rng.normal(size=5)
        self.pair = self.rng.normal(size=(5, 5)) * 1.5
        self.spent = 0

    def measure(self, mix):
        mix = np.asarray(mix, dtype=np.float64)
        value = mix @ self.lin + np.einsum("ni,ij,nj->n", mix, self.pair, mix)
        value = value + 0.4 * np.sin(6 * mix[:, 0]) + 0.02 * self.rng.normal(size=len(mix))
        self.spent += len(mix)
        return value.astype(np.float32)


class EnsembleLinear(nn.Module):
    def __init__(self, members, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(members, n_in, n_out) * (2.0 / n_in) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(members, 1, n_out))

    def forward(self, x):
        return torch.baddbmm(self.bias, x, self.weight)


class Ensemble(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.members = cfg.members
        self.l1 = EnsembleLinear(cfg.members, 5, cfg.hidden)
        self.l2 = EnsembleLinear(cfg.members, cfg.hidden, cfg.hidden)
        self.l3 = EnsembleLinear(cfg.members, cfg.hidden, 1)

    def forward(self, x):
        x = x.unsqueeze(0).expand(self.members, -1, -1)
        x = F.silu(self.l1(x))
        x = F.silu(self.l2(x))
        return self.l3(x).squeeze(-1)


def candidates(n, seed):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(5, 0.8), size=n).astype(np.float32)


def fit(model, opt, x, y, steps):
    model.train()
    for _ in range(steps):
        pred = model(x)
        noise = 0.02 * torch.randn_like(pred)
        loss = F.mse_loss(pred, y.unsqueeze(0) + noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
    return loss


@torch.no_grad()
def choose(model, pool_x, taken, k):
    model.eval()
    spread = model(pool_x).std(dim=0)
    spread = spread - 1e6 * torch.from_numpy(taken).float().to(spread.device)
    _, idx = spread.topk(k)
    torch_xla.sync()
    idx = idx.cpu().numpy()
    taken[idx] = True
    return idx


@torch.no_grad()
def test_error(model, x, y):
    rmse = (model(x).mean(0) - y).square().mean().sqrt()
    return rmse.item()


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    lab = Lab(cfg.seed)

    pool = candidates(cfg.pool, cfg.seed)
    pool_x = torch.from_numpy(pool).to(device)
    held_out = candidates(64, cfg.seed + 1)
    test_x = torch.from_numpy(held_out).to(device)
    test_y = torch.from_numpy(lab.measure(held_out)).to(device)
    lab.spent = 0

    first = np.random.default_rng(cfg.seed).choice(cfg.pool, cfg.start, replace=False)
    taken = np.zeros(cfg.pool, dtype=bool)
    taken[first] = True
    x = torch.from_numpy(pool[first]).to(device)
    y = torch.from_numpy(lab.measure(pool[first])).to(device)

    model = Ensemble(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)

    for rnd in range(cfg.rounds):
        loss = fit(model, opt, x, y, cfg.fit_steps)
        rmse = test_error(model, test_x, test_y)
        print(f"round {rnd:2d}  measured {lab.spent:3d}  fit {loss.item():.4f}  test rmse {rmse:.4f}")

        idx = choose(model, pool_x, taken, cfg.per_round)
        picked = pool[idx]
        new_y = lab.measure(picked)
        x = torch.cat([x, torch.from_numpy(picked).to(device)])
        y = torch.cat([y, torch.from_numpy(new_y).to(device)])


if __name__ == "__main__":
    main()
