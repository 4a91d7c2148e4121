"""Multi-task regression on machine-tool sensor windows with gradient surgery (PCGrad)."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

TASKS = ["spindle_load", "vibration", "temperature", "tool_wear"]
N_FEATURES = 12
BATCH = 16
STEPS = 30


class SharedTrunk(nn.Module):
    def __init__(self, n_in, hidden, tasks):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU())
        self.heads = nn.ModuleDict({t: nn.Linear(hidden, 1) for t in tasks})

    def forward(self, x):
        h = self.trunk(x)
        return {t: head(h).squeeze(-1) for t, head in self.heads.items()}


class PCGrad:
    """Projects away the conflicting part of each task's gradient on the shared trunk."""

    def __init__(self, optimizer, shared, rng):
        self.optimizer = optimizer
        self.shared = list(shared)
        self.rng = rng

    def _flat_grads(self, losses):
        flat = []
        for loss in losses:
            grads = torch.autograd.grad(loss, self.shared, retain_graph=True)
            flat.append(torch.cat([g.reshape(-1) for g in grads]))
        return flat

    def _project(self, grads):
        order = list(range(len(grads)))
        self.rng.shuffle(order)
        merged = []
        for i, g in enumerate(grads):
            for j in order:
                if j == i:
                    continue
                g_j = grads[j]
                dot = torch.dot(g, g_j)
                coef = torch.clamp(dot, max=0.0) / (g_j.pow(2).sum() + 1e-8)
                g = g - coef * g_j
            merged.append(g)
        return torch.stack(merged).sum(dim=0)

    def _scatter(self, flat):
        offset = 0
        for p in self.shared:
            n = p.numel()
            p.grad = flat[offset:offset + n].view_as(p).clone()
            offset += n

    def step(self, losses):
        self.optimizer.zero_grad()
        flat = self._project(self._flat_grads(losses))
        torch.stack(losses).sum().backward()
        self._scatter(flat)
        self.optimizer.step()


def make_data(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, N_FEATURES)).astype(np.float32)
    w = rng.normal(size=(N_FEATURES, len(TASKS))).astype(np.float32)
    y = np.tanh(x @ w) + 0.05 * rng.normal(size=(n, len(TASKS))).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(y.astype(np.float32))


def batches(x, y, steps, seed):
    gen = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        idx = torch.randint(0, len(x), (BATCH,), generator=gen)
        yield x[idx], y[idx]


def main():
    torch.manual_seed(7)
    device = torch_xla.device()
    x, y = make_data(256, seed=3)
    model = SharedTrunk(N_FEATURES, 24, TASKS).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    surgery = PCGrad(optimizer, model.trunk.parameters(), random.Random(11))
    criterion = nn.MSELoss()

    for step, (xb, yb) in enumerate(batches(x, y, STEPS, seed=5)):
        xb, yb = xb.to(device), yb.to(device)
        out = model(xb)
        losses = [criterion(out[t], yb[:, k]) for k, t in enumerate(TASKS)]
        surgery.step(losses)
        xm.mark_step()
        if step % 10 == 9:
            summary = ", ".join(f"{t}={l.item():.4f}" for t, l in zip(TASKS, losses))
            print(f"step {step + 1}: {summary}")


if __name__ == "__main__":
    main()
