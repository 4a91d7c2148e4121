"""Ranking of catalyst candidates by adsorption energy, with rank correlations from torchmetrics.

A deep-set over the surface atoms of a slab predicts one energy; a pairwise hinge keeps the order of the candidates.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.regression import MeanAbsoluteError, R2Score, SpearmanCorrCoef

ELEMENTS = 8
ATOMS = 12


def slabs(n, seed):
    """Atoms with element, coordination number and distance to the adsorbate."""
    rng = np.random.default_rng(seed)
    element = rng.integers(0, ELEMENTS, (n, ATOMS))
    coordination = rng.integers(3, 13, (n, ATOMS)) / 12.0
    distance = rng.gamma(4.0, 0.6, (n, ATOMS)) + 1.5
    d_band = np.linspace(-3.5, -1.0, ELEMENTS)
    weight = np.exp(-distance / 2.0)
    energy = (weight * (d_band[element] + 1.5 * (1 - coordination))).sum(1) / weight.sum(1)
    energy += 0.05 * rng.standard_normal(n)
    geometry = np.stack([coordination, distance / 5.0], -1)
    return element, geometry.astype(np.float32), energy.astype(np.float32)


class SlabNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.element = nn.Embedding(ELEMENTS, 8)
        self.atom = nn.Sequential(nn.Linear(10, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.gate = nn.Linear(width, 1)
        self.head = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, element, geometry):
        h = self.atom(torch.cat([self.element(element), geometry], -1))
        attention = torch.softmax(self.gate(h), dim=1)
        return self.head((attention * h).sum(1)).squeeze(-1)


def ranking_hinge(pred, target, margin=0.1):
    dp = pred[:, None] - pred[None, :]
    dt = torch.sign(target[:, None] - target[None, :])
    return F.relu(margin - dp * dt).mul(dt.abs()).mean()


class Experiment:
    def __init__(self, args):
        self.args = args
        self.device = torch_xla.device()
        self.net = SlabNet().to(self.device)
        self.optimizer = torch.optim.NAdam(self.net.parameters(), lr=args.lr)
        self.scores = MetricCollection(
            {"mae": MeanAbsoluteError(), "r2": R2Score(), "rho": SpearmanCorrCoef()}, compute_groups=False
        ).to(self.device)
        self.loss_meter = MeanMetric().to(self.device)
        self.rng = np.random.default_rng(args.seed)
        self.data = slabs(args.candidates, args.seed)

    def batches(self):
        order = self.rng.permutation(self.args.candidates)
        for part in np.array_split(order, self.args.candidates // self.args.batch):
            yield [torch.from_numpy(a[part]).to(self.device) for a in self.data]

    def train_epoch(self, epoch):
        self.scores.reset()
        self.loss_meter.reset()
        best_rho = -1.0
        for i, (element, geometry, energy) in enumerate(self.batches()):
            pred = self.net(element, geometry)
            loss = F.mse_loss(pred, energy) + 0.5 * ranking_hinge(pred, energy)
            self.optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(self.optimizer)

            self.scores.update(pred.detach(), energy)
            self.loss_meter.update(loss.detach())
            so_far = self.scores.compute()
            torch_xla.sync()
            best_rho = max(best_rho, float(so_far["rho"]))
            if i % self.args.log_every == 0:
                line = "  ".join(f"{k} {float(v):+.3f}" for k, v in so_far.items())
                print(f"epoch {epoch} batch {i:2d}  loss {float(self.loss_meter.compute()):.4f}  {line}")
        print(f"epoch {epoch} best rho {best_rho:.3f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--candidates", type=int, default=400)
    ap.add_argument("--batch", type=int, default=20)
    ap.add_argument("--epochs", type=int, default=1)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--log-every", type=int, default=5)
    ap.add_argument("--seed", type=int, default=17)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    experiment = Experiment(args)
    for epoch in range(args.epochs):
        experiment.train_epoch(epoch)


if __name__ == "__main__":
    main()
