"""Multi-property regression for electrolyte formulations.

A shared trunk reads a formulation vector (solvent fractions, salt molarity, additives,
temperature) and four heads predict conductivity, viscosity, oxidation onset and flash
point.  Conflicting task gradients are resolved with gradient surgery (Yu et al., 2020)
before the trunk update.
"""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

TASKS = ("conductivity", "viscosity", "onset", "flash")


def make_table(n, dim, seed):
    rng = np.random.default_rng(seed)
    x = rng.dirichlet(np.ones(dim - 2), size=n).astype(np.float32)
    salt = rng.uniform(0.2, 2.0, (n, 1)).astype(np.float32)
    temp = rng.uniform(-1.0, 1.0, (n, 1)).astype(np.float32)
    x = np.concatenate([x, salt, temp], axis=1)
    w = rng.normal(size=(dim, len(TASKS))).astype(np.float32)
    y = x @ w
    y[:, 0] = y[:, 0] * np.exp(-0.5 * salt[:, 0])
    y[:, 1] = np.exp(0.4 * y[:, 1] - 0.6 * temp[:, 0])
    y = (y - y.mean(0)) / y.std(0)
    y += 0.05 * rng.normal(size=y.shape)
    return torch.from_numpy(x), torch.from_numpy(y.astype(np.float32))


class Trunk(nn.Module):
    def __init__(self, dim, width, depth=1):
        super().__init__()
        self.inp = nn.Linear(dim, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(depth)
        )

    def forward(self, x):
        h = F.silu(self.inp(x))
        for blk in self.blocks:
            h = h + blk(h)
        return h


class FormulationNet(nn.Module):
    def __init__(self, dim, width=32):
        super().__init__()
        self.trunk = Trunk(dim, width)
        self.heads = nn.ModuleDict({t: nn.Linear(width, 1) for t in TASKS})

    def forward(self, x):
        h = self.trunk(x)
        return {t: head(h).squeeze(-1) for t, head in self.heads.items()}


def flatten(grads):
    return torch.cat([g.reshape(-1) for g in grads])


def unflatten_into(params, flat):
    ofs = 0
    for p in params:
        p.grad = flat[ofs:ofs + p.numel()].view_as(p).clone()
        ofs += p.numel()


class GradientSurgery:
    """Projects every task gradient on the normal plane of the ones it conflicts with."""

    def __init__(self, shared, seed):
        self.shared = list(shared)
        self.rng = random.Random(seed)

    def task_grads(self, losses):
        return [flatten(torch.autograd.grad(l, self.shared, retain_graph=True)) for l in losses]

    def project(self, grads):
        sq = [g.dot(g) + 1e-12 for g in grads]
        out = []
        for i, gi in enumerate(grads):
            others = [j for j in range(len(grads)) if j != i]
            self.rng.shuffle(others)
            g = gi
            for j in others:
                # no branch on the sign: the clamp zeroes the correction when they agree
                coef = torch.clamp(g.dot(grads[j]) / sq[j], max=0.0)
                g = g - coef * grads[j]
            out.append(g)
        return torch.stack(out).mean(0)

    def backward(self, losses, head_params):
        heads = list(head_params)
        head_grads = torch.autograd.grad(sum(losses), heads, retain_graph=True)
        merged = self.project(self.task_grads(losses))
        for p, g in zip(heads, head_grads):
            p.grad = g
        unflatten_into(self.shared, merged)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=5e-2)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch_xla.device()

    x, y = make_table(2048, 12, args.seed)
    model = FormulationNet(x.shape[1]).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    surgery = GradientSurgery(model.trunk.parameters(), args.seed)
    running = torch.zeros(len(TASKS), device=device)

    gen = torch.Generator().manual_seed(args.seed)
    for step in range(args.steps):
        idx = torch.randint(0, x.shape[0], (args.batch_size,), generator=gen)
        xb, yb = x[idx].to(device), y[idx].to(device)

        pred = model(xb)
        losses = [F.mse_loss(pred[t], yb[:, k]) for k, t in enumerate(TASKS)]

        opt.zero_grad(set_to_none=True)
        surgery.backward(losses, model.heads.parameters())
        opt.step()

        with torch.no_grad():
            running.mul_(0.9).add_(torch.stack(losses).detach(), alpha=0.1)
        xm.mark_step()

        if (step + 1) % 5 == 0:
            vals = running.cpu().tolist()
            print(f"step {step + 1:3d} " + " ".join(f"{t}={v:.4f}" for t, v in zip(TASKS, vals)))


if __name__ == "__main__":
    main()
