"""Learned smoother for a geometric multigrid Poisson solver.

One small convolutional smoother is shared by all levels of a V-cycle.  It is
trained on right-hand sides discretised on several grids so that it carries
over between resolutions.
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

GRIDS = (8, 16, 32)
COARSEST = 4


class Laplacian(nn.Module):
    def __init__(self):
        super().__init__()
        kernel = torch.tensor([[0.0, -1.0, 0.0], [-1.0, 4.0, -1.0], [0.0, -1.0, 0.0]])
        self.register_buffer("kernel", kernel.view(1, 1, 3, 3))

    def forward(self, u):
        return F.conv2d(u, self.kernel, padding=1)


class Smoother(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.second = nn.Conv2d(width, 1, 3, padding=1, bias=False)
        self.damping = nn.Parameter(torch.tensor(0.2))
        nn.init.normal_(self.first.weight, std=0.1)
        nn.init.normal_(self.second.weight, std=0.1)

    def forward(self, u, residual):
        return u + self.damping * residual + self.second(self.first(residual))


class VCycle(nn.Module):
    def __init__(self):
        super().__init__()
        self.operator = Laplacian()
        self.smoother = Smoother()

    @staticmethod
    def prolong(error):
        b, c, h, w = error.shape
        fine = error[:, :, :, None, :, None].expand(b, c, h, 2, w, 2)
        return fine.reshape(b, c, 2 * h, 2 * w)

    def cycle(self, u, f):
        u = self.smoother(u, f - self.operator(u))
        n = u.shape[-1]
        if n > COARSEST:
            residual = f - self.operator(u)
            coarse = 4.0 * F.avg_pool2d(residual, 2)
            error = self.cycle(torch.zeros_like(coarse), coarse)
            u = u + self.prolong(error)
        return self.smoother(u, f - self.operator(u))

    def forward(self, f, cycles=2):
        u = torch.zeros_like(f)
        for _ in range(cycles):
            u = self.cycle(u, f)
        return u


def sample_rhs(batch, n, gen):
    """Random smooth sources: a few Gaussian bumps of either sign."""
    axis = (torch.arange(n, dtype=torch.float32) + 0.5) / n
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    centres = torch.rand(batch, 4, 2, 1, 1, generator=gen)
    width = 0.05 + 0.15 * torch.rand(batch, 4, 1, 1, generator=gen)
    sign = torch.randn(batch, 4, 1, 1, generator=gen)
    d2 = (yy - centres[:, :, 0]) ** 2 + (xx - centres[:, :, 1]) ** 2
    f = (sign * torch.exp(-d2 / (2 * width ** 2))).sum(dim=1, keepdim=True)
    return f - f.mean(dim=(2, 3), keepdim=True)


def relative_residual(model, f, u):
    r = f - model.operator(u)
    return r.flatten(1).norm(dim=1) / f.flatten(1).norm(dim=1).clamp_min(1e-6)


@torch.no_grad()
def validate(model, f):
    model.eval()
    u = model(f, cycles=4)
    value = relative_residual(model, f, u).mean()
    model.train()
    return value.item()


def main():
    random.seed(23)
    torch.manual_seed(23)
    gen = torch.Generator().manual_seed(29)
    device = xm.xla_device()

    model = VCycle().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    holdout = sample_rhs(6, GRIDS[-1], gen).to(device)

    history = {n: [] for n in GRIDS}
    for step in range(1, 46):
        n = random.choice(GRIDS)
        f = sample_rhs(8, n, gen).to(device)

        u = model(f)
        loss = relative_residual(model, f, u).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        xm.mark_step()

        history[n].append(loss.detach())
        if step % 15 == 0:
            recent = {k: v[-1].item() for k, v in history.items() if v}
            summary = "  ".join(f"{k}x{k} {v:.3f}" for k, v in recent.items())
            print(f"step {step:3d}  {summary}  holdout {validate(model, holdout):.3f}")


if __name__ == "__main__":
    main()
