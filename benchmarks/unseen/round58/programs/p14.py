"""Sinkhorn generative model: match a point generator to a 2-D distribution."""
import math

import torch
import torch.nn as nn
import torch_xla

N_POINTS, LATENT = 40, 4
STEPS = 20
EPS_START, EPS_END = 0.1, 0.02


class TwoArcs:
    def __init__(self, n, seed):
        self.n = n
        self.gen = torch.Generator().manual_seed(seed)

    def draw(self):
        half = self.n // 2
        a = torch.rand(self.n, generator=self.gen) * math.pi
        pts = torch.stack([torch.cos(a), torch.sin(a)], -1)
        pts[half:, 0] = 1 - pts[half:, 0]
        pts[half:, 1] = 0.4 - pts[half:, 1]
        return pts + 0.05 * torch.randn(self.n, 2, generator=self.gen)


class PointGenerator(nn.Module):
    def __init__(self, latent, hidden=24):
        super().__init__()
        self.latent = latent
        self.body = nn.Sequential(nn.Linear(latent, hidden), nn.Tanh(), nn.Linear(hidden, 2))

    def forward(self, n):
        z = torch.randn(n, self.latent, device=self.body[0].weight.device)
        return self.body(z)


def cost_matrix(x, y):
    xx = (x * x).sum(-1)[:, None]
    yy = (y * y).sum(-1)[None, :]
    return (xx + yy - 2 * x @ y.t()).clamp(min=0)


class SinkhornLoss(nn.Module):
    """Entropic OT with uniform weights, in the scaling form; the cost is scaled to [0, 1]."""

    def __init__(self, max_iter=60, tol=1e-3):
        super().__init__()
        self.max_iter, self.tol = max_iter, tol
        self.iterations = 0

    def forward(self, x, y, eps):
        cost = cost_matrix(x, y)
        scale = cost.detach().max()
        kernel = torch.exp(-cost / (scale * eps))
        v = torch.full((y.shape[0],), 1.0 / y.shape[0], device=x.device)
        for it in range(1, self.max_iter + 1):
            u = 1.0 / (x.shape[0] * (kernel @ v))
            back = kernel.t() @ u
            err = (v * back - 1.0 / y.shape[0]).abs().sum()
            if err.item() < self.tol:
                break
            v = 1.0 / (y.shape[0] * back)
        self.iterations = it
        plan = u[:, None] * kernel * v[None, :]
        return (plan * cost).sum()


def eps_at(step):
    return EPS_START * (EPS_END / EPS_START) ** (step / (STEPS - 1))


@torch.no_grad()
def coverage(generator, data):
    fake = generator(N_POINTS)
    d = cost_matrix(fake, data).min(dim=0).values
    return (d < 0.1).float().mean()


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    data = TwoArcs(N_POINTS, seed=8)
    generator = PointGenerator(LATENT).to(device)
    criterion = SinkhornLoss()
    opt = torch.optim.SGD(generator.parameters(), lr=0.1)
    held_out = data.draw().to(device)
    torch_xla.sync()

    history = []
    for step in range(STEPS):
        real = data.draw().to(device)
        eps = eps_at(step)
        opt.zero_grad()
        fake = generator(N_POINTS)
        torch_xla.sync()
        loss = criterion(fake, real, eps)
        loss.backward()
        opt.step()
        torch_xla.sync()
        history.append(loss.detach())
        if (step + 1) % 5 == 0:
            cov = coverage(generator, held_out).item()
            print(f"step {step + 1} eps {eps:.3f} loss {torch.stack(history[-5:]).mean().item():.3f} "
                  f"iters {criterion.iterations} coverage {cov:.2f}")


if __name__ == "__main__":
    main()
