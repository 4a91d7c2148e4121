"""Bayesian optimisation of a simulated batch reactor.

Matern-5/2 GP with ARD length scales, hyper-parameters refitted by marginal
likelihood after every experiment, next experiment by expected improvement.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla

DIM = 3
N_INIT = 6
N_EXPERIMENTS = 14
FIT_STEPS = 4
N_CANDIDATES = 128
JITTER = 1e-3


def reactor_yield(u, rng):
    """u in [0,1]^3: temperature, residence time, catalyst loading."""
    temp, tau, cat = 300 + 120 * u[0], 5 + 55 * u[1], 0.1 + 0.9 * u[2]
    k1 = cat * 3e5 * math.exp(-5200 / temp)
    k2 = cat ** 0.5 * 6e8 * math.exp(-8600 / temp)
    b = k1 / (k2 - k1 + 1e-9) * (math.exp(-k1 * tau) - math.exp(-k2 * tau))
    return b - 0.15 * cat + 0.01 * rng.normal()


class GP(nn.Module):

    def __init__(self):
        super().__init__()
        self.log_len = nn.Parameter(torch.full((DIM,), math.log(0.4)))
        self.log_amp = nn.Parameter(torch.tensor(0.0))
        self.log_noise = nn.Parameter(torch.tensor(math.log(0.05)))
        self.mean = nn.Parameter(torch.tensor(0.0))

    def kernel(self, a, b):
        a = a / self.log_len.exp()
        b = b / self.log_len.exp()
        sq = (a.unsqueeze(1) - b.unsqueeze(0)).square().sum(-1)
        r = torch.sqrt(5.0 * sq + 1e-8)
        return self.log_amp.exp() * (1 + r + r.square() / 3) * torch.exp(-r)

    def factor(self, x):
        k = self.kernel(x, x)
        noise = self.log_noise.exp() + JITTER
        return torch.linalg.cholesky(k + noise * torch.eye(x.shape[0], device=x.device))

    def nll(self, x, y):
        chol = self.factor(x)
        res = (y - self.mean).unsqueeze(1)
        half = torch.linalg.solve_triangular(chol, res, upper=False)
        fit = 0.5 * half.square().sum()
        return (fit + torch.diagonal(chol).log().sum()) / x.shape[0]

    def posterior(self, x, y, q):
        chol = self.factor(x)
        cross = self.kernel(x, q)
        half_y = torch.linalg.solve_triangular(
            chol, (y - self.mean).unsqueeze(1), upper=False)
        half_q = torch.linalg.solve_triangular(chol, cross, upper=False)
        mu = self.mean + (half_q * half_y).sum(0)
        var = self.log_amp.exp() - half_q.square().sum(0)
        return mu, var.clamp_min(1e-6).sqrt()


def expected_improvement(mu, sigma, best):
    z = (mu - best) / sigma
    cdf = 0.5 * (1 + torch.erf(z / math.sqrt(2)))
    pdf = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    return sigma * (z * cdf + pdf)


class Campaign:

    def __init__(self, device, seed):
        self.device = device
        self.rng = np.random.default_rng(seed)
        self.gp = GP().to(device)
        self.opt = torch.optim.Adam(self.gp.parameters(), lr=0.05)
        u = self.rng.random((N_INIT, DIM)).astype(np.float32)
        y = np.array([reactor_yield(r, self.rng) for r in u], np.float32)
        self.x = torch.from_numpy(u).to(device)
        self.y = torch.from_numpy(y).to(device)

    def targets(self):
        return (self.y - self.y.mean()) / (self.y.std() + 1e-6)

    def fit(self):
        for _ in range(FIT_STEPS):
            self.opt.zero_grad()
            loss = self.gp.nll(self.x, self.targets())
            loss.backward()
            self.opt.step()
            torch_xla.sync()
        return loss

    @torch.no_grad()
    def propose(self):
        cand = torch.from_numpy(
            self.rng.random((N_CANDIDATES, DIM)).astype(np.float32)).to(self.device)
        y = self.targets()
        mu, sigma = self.gp.posterior(self.x, y, cand)
        ei = expected_improvement(mu, sigma, y.max())
        pick = cand.index_select(0, ei.argmax().unsqueeze(0))
        torch_xla.sync()
        return pick.cpu().numpy()[0]

    def observe(self, u):
        val = reactor_yield(u, self.rng)
        row = torch.from_numpy(u.astype(np.float32)).to(self.device)
        self.x = torch.cat([self.x, row.unsqueeze(0)])
        self.y = torch.cat([self.y, torch.tensor([val], dtype=torch.float32,
                                                 device=self.device)])
        return val


def main():
    torch.manual_seed(8)
    campaign = Campaign(torch_xla.device(), seed=8)
    best = -math.inf
    for k in range(N_EXPERIMENTS):
        loss = campaign.fit()
        u = campaign.propose()
        val = campaign.observe(u)
        best = max(best, val)
        print(f'exp {k:2d}  nll {loss.item():+.3f}  '
              f'u {np.round(u, 2)}  yield {val:.3f}  best {best:.3f}')


if __name__ == '__main__':
    main()
