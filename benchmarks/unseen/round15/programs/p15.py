"""Match cell populations between two time points with entropic optimal transport.

A small encoder of gene counts is trained so that the transport plan between
day-2 and day-4 cells agrees with lineage barcodes.
"""
import os
from typing import NamedTuple

import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm

STEPS = int(os.environ.get("LINEAGE_STEPS", 60))
CELLS = 24
GENES = 40
LATENT = 8


class Batch(NamedTuple):
    early: torch.Tensor
    late: torch.Tensor
    barcode: torch.Tensor

    def to(self, device):
        return Batch(*(t.to(device) for t in self))


class Lineages(torch.utils.data.IterableDataset):
    def __init__(self, steps, seed=7):
        self.steps = steps
        self.g = torch.Generator().manual_seed(seed)
        self.program = torch.randn(LATENT, GENES, generator=self.g)
        self.drift = 0.4 * torch.randn(LATENT, LATENT, generator=self.g)

    def __iter__(self):
        for _ in range(self.steps):
            spread = 0.4 + 1.2 * torch.rand((), generator=self.g)
            clone = spread * torch.randn(CELLS, LATENT, generator=self.g)
            daughter = clone + clone @ self.drift
            shuffle = torch.randperm(CELLS, generator=self.g)
            early = torch.poisson(torch.exp((clone @ self.program) * 0.25), generator=self.g)
            late = torch.poisson(torch.exp((daughter[shuffle] @ self.program) * 0.25), generator=self.g)
            truth = torch.zeros(CELLS, CELLS)
            truth[shuffle, torch.arange(CELLS)] = 1.0
            yield Batch(torch.log1p(early), torch.log1p(late), truth)


class Sinkhorn(nn.Module):
    """Log-domain scaling until the row marginals are met."""

    def __init__(self, epsilon=0.35, tolerance=1e-3, most=30):
        super().__init__()
        self.epsilon = epsilon
        self.tolerance = tolerance
        self.most = most

    def forward(self, cost):
        n, m = cost.shape
        score = -cost / self.epsilon
        f = cost.new_zeros(n, 1)
        g = cost.new_zeros(1, m)
        for _ in range(self.most):
            f_old = f
            f = -torch.logsumexp(score + g, dim=1, keepdim=True)
            g = -torch.logsumexp(score + f, dim=0, keepdim=True)
            if (f - f_old).abs().max() < self.tolerance:
                break
        return score + f + g


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Linear(GENES, 32), nn.SiLU(), nn.Linear(32, LATENT), nn.LayerNorm(LATENT)
        )
        self.advance = nn.Linear(LATENT, LATENT)
        self.solve = Sinkhorn()

    def forward(self, early, late):
        a = self.advance(self.encode(early))
        b = self.encode(late)
        cost = (a.unsqueeze(1) - b.unsqueeze(0)).square().mean(-1)
        return self.solve(cost)


def plan_loss(log_plan, barcode):
    return -(barcode * log_plan).sum() / barcode.sum()


def train(device):
    model = Matcher().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    loader = torch.utils.data.DataLoader(Lineages(STEPS), batch_size=None)
    smooth = None
    for step, batch in enumerate(loader):
        batch = batch.to(device)
        log_plan = model(batch.early, batch.late)
        loss = plan_loss(log_plan, batch.barcode)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        schedule.step()
        if step % 10 == 9:
            value = loss.item()
            smooth = value if smooth is None else 0.7 * smooth + 0.3 * value
            print(f"step {step + 1:3d}  nll {value:.3f}  smooth {smooth:.3f}")
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    train(torch_xla.device())
