"""Bayesian optimisation of a noisy two-dimensional function with an exact GP (RBF-ARD) and expected improvement.

The observations live in buffers whose capacity doubles when it is used up; unused rows are decoupled from the rest.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

DIM = 2
CANDIDATES = 256


def objective(x, gen):
    a = torch.sin(5 * x[:, 0]) * (1 - torch.tanh(x[:, 1] ** 2 * 4))
    b = torch.exp(-((x - 0.7) ** 2).sum(-1) * 6)
    return a + 1.5 * b + 0.02 * torch.randn(x.size(0), generator=gen)


class GP(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_ls = nn.Parameter(torch.full((DIM,), -1.0))
        self.log_var = nn.Parameter(torch.zeros(()))
        self.log_noise = nn.Parameter(torch.tensor(-4.0))
        self.mean = nn.Parameter(torch.zeros(()))

    def kernel(self, a, b):
        a, b = a / self.log_ls.exp(), b / self.log_ls.exp()
        d2 = (a.unsqueeze(1) - b.unsqueeze(0)).pow(2).sum(-1)
        return self.log_var.exp() * torch.exp(-0.5 * d2)

    def _chol(self, x, valid):
        k = self.kernel(x, x) * valid.unsqueeze(0) * valid.unsqueeze(1)
        diag = torch.where(valid > 0, self.log_noise.exp() + 1e-4, torch.ones_like(valid))
        return torch.linalg.cholesky(k + torch.diag_embed(diag))

    def nll(self, x, y, valid):
        chol = self._chol(x, valid)
        r = ((y - self.mean) * valid).unsqueeze(-1)
        z = torch.linalg.solve_triangular(chol, r, upper=False)
        n = valid.sum()
        logdet = 2 * torch.diagonal(chol).log().sum()
        prior = 0.05 * (self.log_ls + 1).pow(2).sum() + 0.05 * (self.log_noise + 4).pow(2)
        return (0.5 * (z.pow(2).sum() + logdet + n * math.log(2 * math.pi))) / n + prior

    @torch.no_grad()
    def posterior(self, x, y, valid, query):
        chol = self._chol(x, valid)
        ks = self.kernel(x, query) * valid.unsqueeze(-1)
        r = ((y - self.mean) * valid).unsqueeze(-1)
        v = torch.linalg.solve_triangular(chol, ks, upper=False)
        z = torch.linalg.solve_triangular(chol, r, upper=False)
        mu = self.mean + (v * z).sum(0)
        var = (self.log_var.exp() - v.pow(2).sum(0)).clamp(min=1e-6)
        return mu, var


class Observations:
    def __init__(self, x, y, capacity):
        self.capacity = capacity
        self.x, self.y, self.n = torch.zeros(capacity, DIM), torch.zeros(capacity), 0
        self.add(x, y)

    def add(self, x, y):
        while self.n + len(y) > self.capacity:
            self.x = torch.cat([self.x, torch.zeros_like(self.x)])
            self.y = torch.cat([self.y, torch.zeros_like(self.y)])
            self.capacity *= 2
        self.x[self.n:self.n + len(y)] = x
        self.y[self.n:self.n + len(y)] = y
        self.n += len(y)

    def on(self, device):
        valid = (torch.arange(self.capacity) < self.n).float()
        std = self.y[:self.n].std().clamp(min=1e-3)
        y = (self.y - self.y[:self.n].mean()) / std * valid
        return self.x.to(device), y.to(device), valid.to(device)


def expected_improvement(mu, var, best):
    sigma = var.sqrt()
    u = (mu - best) / sigma
    cdf = 0.5 * (1 + torch.erf(u / math.sqrt(2)))
    pdf = torch.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
    return sigma * (u * cdf + pdf)


def fit(gp, opt, data, iters):
    for _ in range(iters):
        opt.zero_grad()
        loss = gp.nll(*data)
        loss.backward()
        nn.utils.clip_grad_norm_(gp.parameters(), 10.0)
        opt.step()
        torch_xla.sync()
    return loss


def main():
    torch.manual_seed(13)
    gen = torch.Generator().manual_seed(14)
    device = torch_xla.device()
    x0 = torch.rand(5, DIM, generator=gen)
    obs = Observations(x0, objective(x0, gen), capacity=8)
    gp = GP().to(device)
    opt = torch.optim.Adam(gp.parameters(), lr=0.05)

    for rnd in range(24):
        data = obs.on(device)
        loss = fit(gp, opt, data, iters=6 if rnd == 0 else 2)
        query = torch.rand(CANDIDATES, DIM, generator=gen)
        mu, var = gp.posterior(*data, query.to(device))
        best = torch.where(data[2] > 0, data[1], torch.full_like(data[1], -1e9)).max()
        pick = expected_improvement(mu, var, best).argmax()
        torch_xla.sync()
        x_new = query[pick.item()].unsqueeze(0)
        obs.add(x_new, objective(x_new, gen))
        if rnd % 6 == 5:
            xm.master_print(f"round {rnd + 1} nll {loss.item():.3f} best {obs.y[:obs.n].max():.3f} n {obs.n}")


if __name__ == "__main__":
    main()
