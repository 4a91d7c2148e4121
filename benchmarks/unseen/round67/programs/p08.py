"""Multi-task property regression for polymers with gradient surgery.

A shared trunk feeds one head per measured property.  Conflicting gradients on
the trunk are projected onto each other's normal plane (PCGrad, Yu et al. 2020).
"""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

PROPERTIES = ["glass_transition", "density", "modulus", "permeability"]
DESCRIPTORS = 40


def make_table(rows, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, DESCRIPTORS)).astype(np.float32)
    mix = rng.normal(size=(DESCRIPTORS, len(PROPERTIES))).astype(np.float32) / 6.0
    y = np.tanh(x @ mix) + 0.05 * rng.normal(size=(rows, len(PROPERTIES)))
    return torch.from_numpy(x), torch.from_numpy(y.astype(np.float32))


class Trunk(nn.Module):
    def __init__(self, dim_in, dim):
        super().__init__()
        self.inp = nn.Linear(dim_in, dim)
        self.mid = nn.Linear(dim, dim)

    def forward(self, x):
        h = F.silu(self.inp(x))
        return h + F.silu(self.mid(h))


class PolymerNet(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.trunk = Trunk(DESCRIPTORS, dim)
        self.heads = nn.ModuleDict({p: nn.Linear(dim, 1) for p in PROPERTIES})

    def forward(self, x):
        h = self.trunk(x)
        return {p: head(h).squeeze(-1) for p, head in self.heads.items()}


class GradientSurgery:
    """Wraps an optimizer; `backward` fills .grad from a list of task losses."""

    def __init__(self, optimizer, shared):
        self.optimizer = optimizer
        self.shared = list(shared)

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)

    def step(self):
        self.optimizer.step()

    def _flatten(self, grads):
        return torch.cat([g.reshape(-1) for g in grads])

    def _unflatten(self, flat):
        offset = 0
        for p in self.shared:
            n = p.numel()
            p.grad = flat[offset:offset + n].view_as(p).clone()
            offset += n

    def _project(self, grads):
        projected = []
        for i, own in enumerate(grads):
            others = [j for j in range(len(grads)) if j != i]
            random.shuffle(others)
            g = own
            for j in others:
                ref = grads[j]
                overlap = torch.dot(g, ref).clamp(max=0.0)
                g = g - overlap / ref.pow(2).sum().clamp_min(1e-12) * ref
            projected.append(g)
        return torch.stack(projected).mean(dim=0)

    def backward(self, losses, private):
        flat = []
        for loss, params in zip(losses, private):
            grads = torch.autograd.grad(loss, self.shared + params, retain_graph=True)
            flat.append(self._flatten(grads[:len(self.shared)]))
            for p, g in zip(params, grads[len(self.shared):]):
                p.grad = g
        self._unflatten(self._project(flat))


def main():
    random.seed(17)
    np.random.seed(17)
    torch.manual_seed(17)
    device = xm.xla_device()

    x, y = make_table(rows=600, seed=2)
    dataset = torch.utils.data.TensorDataset(x, y)
    loader = torch.utils.data.DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True)

    model = PolymerNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    surgery = GradientSurgery(optimizer, model.trunk.parameters())
    private = [list(model.heads[p].parameters()) for p in PROPERTIES]
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=18)

    model.train()
    for epoch in range(2):
        running = torch.zeros(len(PROPERTIES), device=device)
        for features, targets in loader:
            features, targets = features.to(device), targets.to(device)
            outputs = model(features)
            losses = [F.smooth_l1_loss(outputs[p], targets[:, k])
                      for k, p in enumerate(PROPERTIES)]
            surgery.zero_grad()
            surgery.backward(losses, private)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            surgery.step()
            scheduler.step()
            running += torch.stack(losses).detach()
            torch_xla.sync()
        means = (running / len(loader)).cpu().tolist()
        print(f"epoch {epoch}  " + "  ".join(f"{p} {m:.4f}" for p, m in zip(PROPERTIES, means)))


if __name__ == "__main__":
    main()
