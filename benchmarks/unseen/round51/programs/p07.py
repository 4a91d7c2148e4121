"""Perturbation-response mapping between unpaired cell populations.

A residual map T(x) is trained so that T(control) matches the treated population
under an entropic optimal-transport loss (log-domain Sinkhorn, envelope gradient).
"""
import math

import torch
import torch.nn as nn
import torch_xla

DIM = 8
N_CELLS = 32
STEPS = 26


class Populations:
    """Control cells are a mixture of states; the treatment shifts each state."""

    def __init__(self, n_states=3, seed=21):
        self.g = torch.Generator().manual_seed(seed)
        self.centers = 1.2 * torch.randn(n_states, DIM, generator=self.g)
        self.shift = 0.7 * torch.randn(n_states, DIM, generator=self.g)
        self.n_states = n_states

    def _draw(self, n, treated):
        s = torch.randint(0, self.n_states, (n,), generator=self.g)
        spread = 0.3 + 0.5 * torch.rand((), generator=self.g)
        x = self.centers[s] + spread * torch.randn(n, DIM, generator=self.g)
        return x + self.shift[s] if treated else x

    def sample(self, n):
        return self._draw(n, False), self._draw(n, True)


class ResidualMap(nn.Module):
    def __init__(self, hidden=32, depth=2):
        super().__init__()
        layers, d = [], DIM
        for _ in range(depth):
            layers += [nn.Linear(d, hidden), nn.GELU()]
            d = hidden
        layers += [nn.Linear(d, DIM)]
        self.net = nn.Sequential(*layers)
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        return x + self.net(x)


def squared_cost(x, y):
    return (x.unsqueeze(1) - y.unsqueeze(0)).pow(2).sum(-1) / x.size(1)


class SinkhornLoss(nn.Module):
    def __init__(self, eps=1.5, eps_min=0.2, decay=0.93, tol=2e-2, max_iter=100):
        super().__init__()
        self.eps = eps
        self.eps_min = eps_min
        self.decay = decay
        self.tol = tol
        self.max_iter = max_iter

    def potentials(self, cost):
        n, m = cost.shape
        log_a, log_b = -math.log(n), -math.log(m)
        f = cost.new_zeros(n)
        g = cost.new_zeros(m)
        for _ in range(self.max_iter):
            f_prev = f
            f = -self.eps * torch.logsumexp((g.unsqueeze(0) - cost) / self.eps + log_b, 1)
            g = -self.eps * torch.logsumexp((f.unsqueeze(1) - cost) / self.eps + log_a, 0)
            if (f - f_prev).abs().mean() < self.tol:
                break
        return f, g

    def anneal(self):
        self.eps = max(self.eps * self.decay, self.eps_min)

    def plan(self, cost):
        f, g = self.potentials(cost)
        n, m = cost.shape
        log_p = (f.unsqueeze(1) + g.unsqueeze(0) - cost) / self.eps
        return torch.exp(log_p - math.log(n) - math.log(m))

    def forward(self, x, y):
        cost = squared_cost(x, y)
        with torch.no_grad():
            p = self.plan(cost.detach())
        return (p * cost).sum()


def mean_shift_error(model, data, device):
    with torch.no_grad():
        ctrl, trt = data.sample(256)
        pred = model(ctrl.to(device)).mean(0).cpu()
    return (pred - trt.mean(0)).norm().item()


def train():
    torch.manual_seed(3)
    device = torch_xla.device()
    data = Populations()
    model = ResidualMap().to(device)
    ot_loss = SinkhornLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)

    log = []
    for step in range(STEPS):
        ctrl, trt = data.sample(N_CELLS)
        ctrl, trt = ctrl.to(device), trt.to(device)
        optimizer.zero_grad()
        moved = model(ctrl)
        reg = 0.05 * (moved - ctrl).pow(2).mean()
        loss = ot_loss(moved, trt) + reg
        loss.backward()
        optimizer.step()
        scheduler.step()
        ot_loss.anneal()
        torch_xla.sync()
        log.append(loss.detach())
        if (step + 1) % 13 == 0:
            recent = torch.stack(log[-13:]).cpu().mean().item()
            print(f"step {step + 1:3d} ot {recent:.4f}")

    print(f"mean shift error {mean_shift_error(model, data, device):.3f}")


if __name__ == "__main__":
    train()
