"""Multi-property regression for perovskite compositions with gradient surgery."""
import argparse
import random
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.core.xla_model as xm

PROPERTIES = OrderedDict(
    band_gap=dict(scale=1.2, loss=F.smooth_l1_loss),
    formation_energy=dict(scale=0.8, loss=F.mse_loss),
    bulk_modulus=dict(scale=2.0, loss=F.l1_loss),
    e_hull=dict(scale=0.5, loss=F.smooth_l1_loss),
)
N_FEATURES = 22


def make_compositions(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, N_FEATURES, generator=g)
    x = x / x.sum(1, keepdim=True) * 4
    columns = []
    for spec in PROPERTIES.values():
        w1 = torch.randn(N_FEATURES, 6, generator=g)
        w2 = torch.randn(6, generator=g)
        columns.append(spec["scale"] * (torch.tanh(x @ w1) @ w2)
                       + 0.05 * torch.randn(n, generator=g))
    y = torch.stack(columns, 1)
    return x, (y - y.mean(0)) / y.std(0)


class Trunk(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(N_FEATURES, width), nn.SiLU(), nn.LayerNorm(width),
            nn.Linear(width, width), nn.SiLU(),
        )

    def forward(self, x):
        return self.layers(x)


class PropertyNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.trunk = Trunk(width)
        self.heads = nn.ModuleDict({k: nn.Linear(width, 1) for k in PROPERTIES})

    def forward(self, x):
        h = self.trunk(x)
        return {k: head(h).squeeze(1) for k, head in self.heads.items()}


class SurgeryOptimizer:
    """Gradient surgery (Yu et al. 2020) around a torch optimizer.

    Shared parameters receive the sum of the projected task gradients, head
    parameters receive their own.
    """

    def __init__(self, optimizer, shared, rng):
        self.optimizer = optimizer
        self.shared = list(shared)
        self.rng = rng

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)

    def _task_gradients(self, losses):
        rows = []
        for loss in losses:
            grads = torch.autograd.grad(loss, self.shared, retain_graph=True)
            rows.append(torch.cat([g.reshape(-1) for g in grads]))
        return rows

    def _project(self, rows):
        result = []
        for i, row in enumerate(rows):
            g = row.clone()
            others = [j for j in range(len(rows)) if j != i]
            self.rng.shuffle(others)
            for j in others:
                dot = torch.dot(g, rows[j])
                coef = torch.clamp(dot, max=0.0) / (rows[j].square().sum() + 1e-8)
                g = g - coef * rows[j]
            result.append(g)
        return torch.stack(result).sum(0)

    def backward(self, losses, head_params):
        rows = self._task_gradients(losses)
        head_grads = torch.autograd.grad(sum(losses), head_params)
        merged = self._project(rows)
        offset = 0
        for p in self.shared:
            n = p.numel()
            p.grad = merged[offset:offset + n].view_as(p)
            offset += n
        for p, g in zip(head_params, head_grads):
            p.grad = g

    def step(self):
        self.optimizer.step()


def validate(model, x, y):
    model.eval()
    with torch.no_grad():
        pred = model(x)
        mae = torch.stack([(pred[k] - y[:, i]).abs().mean()
                           for i, k in enumerate(PROPERTIES)])
    xm.mark_step()
    model.train()
    return dict(zip(PROPERTIES, mae.cpu().tolist()))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)
    device = xm.xla_device()
    x, y = make_compositions(320, args.seed)
    train = TensorDataset(x[:256], y[:256])
    vx, vy = x[256:].to(device), y[256:].to(device)
    loader = DataLoader(train, batch_size=args.batch, shuffle=True, drop_last=True)

    model = PropertyNet().to(device)
    base = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    opt = SurgeryOptimizer(base, model.trunk.parameters(), rng)
    head_params = list(model.heads.parameters())
    xm.mark_step()

    for epoch in range(args.epochs):
        for bx, by in loader:
            bx, by = bx.to(device), by.to(device)
            pred = model(bx)
            losses = [spec["loss"](pred[name], by[:, i])
                      for i, (name, spec) in enumerate(PROPERTIES.items())]
            opt.zero_grad()
            opt.backward(losses, head_params)
            opt.step()
            xm.mark_step()
        scores = validate(model, vx, vy)
        xm.master_print(f"[{epoch}] " + "  ".join(f"{k}={v:.3f}" for k, v in scores.items()))


if __name__ == "__main__":
    main()
