import math
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch_xla

# Bayesian optimization of a reactor (temperature, residence time, catalyst load, ratio)
# with an exact GP and expected improvement.
DIMS = 4
N_INIT = 8
BUDGET = 18
FIT_ITERS = 6
N_CAND = 256


class Reactor:
    """Black box: yield in percent with measurement noise."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.opt = np.array([0.62, 0.35, 0.71, 0.48])
        self.width = np.array([0.25, 0.4, 0.5, 0.3])

    def run(self, x):
        z = (np.asarray(x) - self.opt) / self.width
        main = 88.0 * np.exp(-0.5 * float(z @ z))
        side = 9.0 * math.sin(5 * x[0]) * x[2]
        return main + side + float(self.rng.normal(scale=0.8))


class Matern52(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_len = nn.Parameter(torch.full((DIMS,), math.log(0.5)))
        self.log_amp = nn.Parameter(torch.zeros(()))

    def forward(self, a, b):
        scale = self.log_len.exp()
        diff = a[:, None] / scale - b[None] / scale
        r = (diff.pow(2).sum(-1) + 1e-8).sqrt() * math.sqrt(5.0)
        return self.log_amp.exp() * (1 + r + r * r / 3) * torch.exp(-r)


class ExactGP(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = Matern52()
        self.log_noise = nn.Parameter(torch.tensor(math.log(0.05)))
        self.mean = nn.Parameter(torch.zeros(()))

    def factor(self, x):
        k = self.kernel(x, x) + (self.log_noise.exp() + 1e-4) * torch.eye(x.size(0), device=x.device)
        return k, torch.cholesky(k.detach())

    def solve(self, chol, rhs):
        return torch.triangular_solve(rhs, chol, upper=False)[0]

    def surrogate(self, x, y):
        """Same gradient as the negative log marginal likelihood: 0.5 tr((K^-1 - aa')dK)."""
        k, chol = self.factor(x)
        with torch.no_grad():
            half = self.solve(chol, torch.eye(x.size(0), device=x.device))
            k_inv = half.t() @ half
            alpha = k_inv @ (y - self.mean)
            nll = 0.5 * (y - self.mean).dot(alpha) + chol.diagonal().log().sum()
        data = 0.5 * ((k_inv - torch.outer(alpha, alpha)) * k).sum() - self.mean * alpha.sum()
        prior = 0.05 * (self.kernel.log_len - math.log(0.5)).pow(2).sum() + 0.05 * self.kernel.log_amp.pow(2)
        return data / x.size(0) + prior, nll / x.size(0)

    def posterior(self, x, y, query):
        _, chol = self.factor(x)
        v = self.solve(chol, (y - self.mean)[:, None])
        w = self.solve(chol, self.kernel(x, query))
        mu = self.mean + (w * v).sum(0)
        var = (self.kernel.log_amp.exp() - w.pow(2).sum(0)).clamp(min=1e-6)
        return mu, var.sqrt()


def expected_improvement(mu, sigma, best, xi=0.01):
    z = (mu - best - xi) / sigma
    pdf = torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    cdf = 0.5 * (1 + torch.erf(z / math.sqrt(2.0)))
    return sigma * (z * cdf + pdf)


class Optimizer:
    def __init__(self, device, seed):
        self.device = device
        self.sobol = torch.quasirandom.SobolEngine(DIMS, scramble=True, seed=seed)
        self.gp = ExactGP().to(device)
        self.opt = torch.optim.Adam(self.gp.parameters(), lr=0.05, betas=(0.9, 0.99))
        self.x = torch.zeros(0, DIMS, device=device)
        self.y = torch.zeros(0, device=device)

    def tell(self, x, y):
        self.x = torch.cat([self.x, x.to(self.device)])
        self.y = torch.cat([self.y, torch.as_tensor(y, dtype=torch.float32).to(self.device)])

    def standardized(self):
        return (self.y - self.y.mean()) / (self.y.std() + 1e-6)

    def fit(self, iters):
        for _ in range(iters):
            self.opt.zero_grad()
            loss, nll = self.gp.surrogate(self.x, self.standardized())
            loss.backward()
            self.opt.step()
            torch_xla.sync()
        return nll

    @torch.no_grad()
    def ask(self):
        cand = self.sobol.draw(N_CAND).to(self.device)
        y = self.standardized()
        mu, sigma = self.gp.posterior(self.x, y, cand)
        ei = expected_improvement(mu, sigma, y.max())
        pick = cand.index_select(0, ei.argmax().view(1))
        torch_xla.sync()
        return pick.cpu()


def main():
    torch.manual_seed(5)
    device = torch_xla.device()
    plant = Reactor(seed=6)
    bo = Optimizer(device, seed=12)

    design = bo.sobol.draw(N_INIT)
    bo.tell(design, [plant.run(p) for p in design.numpy()])
    torch_xla.sync()
    bo.fit(20)

    best = float("-inf")
    for step in range(BUDGET):
        point = bo.ask()
        value = plant.run(point[0].numpy())
        bo.tell(point, [value])
        nll = bo.fit(FIT_ITERS)
        best = max(best, value)
        if (step + 1) % 6 == 0:
            print(f"run {step + 1:2d} yield {value:6.2f} best {best:6.2f} nll {nll.item():.3f}")


if __name__ == "__main__":
    main()
