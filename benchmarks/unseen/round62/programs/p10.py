"""Multi-task regression of building performance with gradient surgery.

Shared encoder, one head per target (heating, cooling, daylight, cost).
Conflicting task gradients are projected onto each other's normal plane
(Yu et al., 2020) before they are summed.
"""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from sklearn.preprocessing import StandardScaler

TASKS = ('heating', 'cooling', 'daylight', 'cost')
FEATURES = 9
BATCH = 32
STEPS = 20


def make_buildings(n, rng):
    x = rng.random((n, FEATURES))
    glass, wall, roof, height, orient = x[:, 0], x[:, 1], x[:, 2], x[:, 3], x[:, 4]
    heating = 12 + 20 * height - 8 * wall * roof - 5 * glass * np.cos(6 * orient)
    cooling = 15 + 14 * glass * (1 + np.sin(6 * orient)) + 6 * height - 3 * roof
    daylight = 2 + 7 * np.sqrt(glass) - 3 * x[:, 5] + x[:, 6] * orient
    cost = 40 + 25 * wall + 18 * glass ** 2 + 10 * roof * height + 5 * x[:, 7]
    y = np.stack([heating, cooling, daylight, cost], 1)
    y += rng.normal(0, 0.5, y.shape)
    x = StandardScaler().fit_transform(x).astype(np.float32)
    y = StandardScaler().fit_transform(y).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


class SharedEncoder(nn.Module):

    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FEATURES, width), nn.SiLU(),
                                 nn.Linear(width, width), nn.SiLU())

    def forward(self, x):
        return self.net(x)


class MultiTask(nn.Module):

    def __init__(self, width=32):
        super().__init__()
        self.encoder = SharedEncoder(width)
        self.heads = nn.ModuleDict({
            t: nn.Linear(width, 1)
            for t in TASKS})

    def forward(self, x):
        h = self.encoder(x)
        return {t: head(h).squeeze(-1) for t, head in self.heads.items()}


class PCGrad:

    def __init__(self, optimizer, shared, specific):
        self.optimizer = optimizer
        self.shared = list(shared)
        self.specific = {t: list(ps) for t, ps in specific.items()}

    def _task_grads(self, losses):
        flat = []
        for t, loss in losses.items():
            params = self.shared + self.specific[t]
            grads = torch.autograd.grad(loss, params, retain_graph=True)
            k = len(self.shared)
            flat.append(torch.cat([g.reshape(-1) for g in grads[:k]]))
            for p, g in zip(self.specific[t], grads[k:]):
                p.grad = g
        return flat

    @staticmethod
    def _project(grads):
        projected = [g.clone() for g in grads]
        for i, g in enumerate(projected):
            others = [j for j in range(len(grads)) if j != i]
            random.shuffle(others)
            for j in others:
                dot = torch.dot(g, grads[j])
                scale = dot.clamp(max=0) / (grads[j].square().sum() + 1e-12)
                g.sub_(scale * grads[j])
        return torch.stack(projected).sum(0)

    def step(self, losses):
        self.optimizer.zero_grad(set_to_none=True)
        merged = self._project(self._task_grads(losses))
        offset = 0
        for p in self.shared:
            n = p.numel()
            p.grad = merged[offset:offset + n].view_as(p)
            offset += n
        self.optimizer.step()


def main(seed=13):
    random.seed(seed)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    device = torch_xla.device()

    x, y = make_buildings(640, rng)
    model = MultiTask().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    pcgrad = PCGrad(optimizer, model.encoder.parameters(),
                    {t: model.heads[t].parameters() for t in TASKS})
    sched = torch.optim.lr_scheduler.StepLR(optimizer, 8, gamma=0.5)

    order = rng.permutation(len(x))
    ptr = 0
    for step in range(STEPS):
        if ptr + BATCH > len(order):
            order, ptr = rng.permutation(len(x)), 0
        idx = torch.from_numpy(order[ptr:ptr + BATCH])
        ptr += BATCH
        xb, yb = x[idx].to(device), y[idx].to(device)
        pred = model(xb)
        losses = {t: F.mse_loss(pred[t], yb[:, k]) for k, t in enumerate(TASKS)}
        pcgrad.step(losses)
        sched.step()
        xm.mark_step()
        if step % 4 == 0:
            print(f'{step:3d} ' + '  '.join(f'{t} {v.item():.3f}' for t, v in losses.items()))


if __name__ == '__main__':
    main()
