import math
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch_xla

# Hamiltonian Monte Carlo for a hierarchical logistic regression (wards within hospitals),
# dual averaging for the step size, diagonal mass matrix from the warmup draws.
N_OBS, N_FEAT, N_WARDS = 240, 5, 8
WARMUP, DRAWS = 24, 44
MASS_AT = 16
TARGET_ACCEPT = 0.8


def make_data(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N_OBS, N_FEAT))
    ward = rng.integers(0, N_WARDS, size=N_OBS)
    beta = rng.normal(scale=0.8, size=N_FEAT)
    offset = rng.normal(scale=0.6, size=N_WARDS)
    logit = x @ beta + offset[ward] - 0.3
    y = rng.random(N_OBS) < 1 / (1 + np.exp(-logit))
    return x.astype(np.float32), ward, y.astype(np.float32)


class Posterior:
    """Unconstrained vector: beta, intercept, log tau, standardized ward effects."""

    def __init__(self, x, ward, y, device):
        self.x = torch.from_numpy(x).to(device)
        self.member = torch.nn.functional.one_hot(torch.from_numpy(ward), N_WARDS).float().to(device)
        self.y = torch.from_numpy(y).to(device)
        self.dim = N_FEAT + 2 + N_WARDS

    def log_prob(self, q):
        beta, inter, log_tau, z = q[:N_FEAT], q[N_FEAT], q[N_FEAT + 1], q[N_FEAT + 2:]
        eta = self.x @ beta + inter + self.member @ (z * log_tau.exp())
        loglik = (self.y * eta - torch.nn.functional.softplus(eta)).sum()
        prior = -0.5 * (beta ** 2).sum() / 4 - 0.5 * inter ** 2 / 9 - 0.5 * (z ** 2).sum() - 0.5 * (log_tau + 1) ** 2
        return loglik + prior

    def value_and_grad(self, q):
        q = q.detach().requires_grad_(True)
        lp = self.log_prob(q)
        (g,) = torch.autograd.grad(lp, q)
        return lp.detach(), g


class DualAveraging:
    def __init__(self, eps0, gamma=0.05, t0=10.0, kappa=0.75):
        self.mu = math.log(10 * eps0)
        self.gamma, self.t0, self.kappa = gamma, t0, kappa
        self.h_bar, self.log_bar, self.m = 0.0, 0.0, 0
        self.eps = eps0

    def update(self, accept):
        self.m += 1
        w = 1.0 / (self.m + self.t0)
        self.h_bar = (1 - w) * self.h_bar + w * (TARGET_ACCEPT - accept)
        log_eps = self.mu - math.sqrt(self.m) / self.gamma * self.h_bar
        eta = self.m ** -self.kappa
        self.log_bar = eta * log_eps + (1 - eta) * self.log_bar
        self.eps = math.exp(log_eps)

    def final(self):
        return math.exp(self.log_bar)


class HMC:
    def __init__(self, target, device, seed):
        self.target, self.device = target, device
        self.rng = np.random.default_rng(seed)
        self.inv_mass = torch.ones(target.dim).to(device)
        self.q = torch.zeros(target.dim).to(device)
        self.lp, self.g = target.value_and_grad(self.q)
        torch_xla.sync()

    def energy(self, lp, p):
        return lp - 0.5 * (p * p * self.inv_mass).sum()

    def transition(self, eps, n_leap):
        p = torch.randn(self.target.dim, device=self.device) / self.inv_mass.sqrt()
        start = self.energy(self.lp, p)
        q, lp, g = self.q, self.lp, self.g
        torch_xla.sync()
        for _ in range(n_leap):
            p = p + 0.5 * eps * g
            q = q + eps * self.inv_mass * p
            lp, g = self.target.value_and_grad(q)
            p = p + 0.5 * eps * g
            torch_xla.sync()
        delta = (self.energy(lp, p) - start).item()
        prob = min(1.0, math.exp(min(0.0, delta))) if math.isfinite(delta) else 0.0
        if self.rng.random() < prob:
            self.q, self.lp, self.g = q, lp, g
        return prob

    def adapt_mass(self, draws):
        var = np.var(np.stack(draws), axis=0)
        n = len(draws)
        shrunk = n / (n + 5.0) * var + 1e-3 * 5.0 / (n + 5.0)
        self.inv_mass = torch.from_numpy(shrunk.astype(np.float32)).to(self.device)


def main():
    torch.manual_seed(31)
    device = torch_xla.device()
    target = Posterior(*make_data(seed=14), device)
    sampler = HMC(target, device, seed=15)
    tuner = DualAveraging(0.05)
    jitter = np.random.default_rng(16)

    kept, warm, accept = [], [], []
    for step in range(WARMUP + DRAWS):
        warming = step < WARMUP
        eps = tuner.eps if warming else tuner.final() * float(jitter.uniform(0.9, 1.1))
        n_leap = int(jitter.integers(5, 12))
        prob = sampler.transition(eps, n_leap)
        if warming:
            tuner.update(prob)
            warm.append(sampler.q.cpu().numpy())
            if step + 1 == MASS_AT:
                sampler.adapt_mass(warm[4:])
                tuner = DualAveraging(0.3)
        else:
            accept.append(prob)
            kept.append(sampler.q.cpu().numpy())
        if (step + 1) % 17 == 0:
            print(f"step {step + 1} eps {eps:.4f} leaps {n_leap} accept {prob:.2f} lp {sampler.lp.item():.2f}")

    post = np.stack(kept)
    print("accept", round(float(np.mean(accept)), 3), "beta", post[:, :N_FEAT].mean(0).round(2))


if __name__ == "__main__":
    main()
