"""Multi-task perception head with gradient surgery (PCGrad).

One shared trunk, four small heads on a toy driving scene: depth, normals,
occupancy, speed.  Conflicting gradient components of the shared trunk are
projected out before the optimiser step.
"""
import random
from typing import Dict, List

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

TASKS = ("depth", "normal", "occupancy", "speed")
BATCH = 16
STEPS = 18


class Scene(nn.Module):
    def __init__(self, dim=24, width=48):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(dim, width), nn.GELU(), nn.LayerNorm(width),
            nn.Linear(width, width), nn.GELU())
        self.heads = nn.ModuleDict({
            "depth": nn.Linear(width, 1),
            "normal": nn.Linear(width, 3),
            "occupancy": nn.Linear(width, 4),
            "speed": nn.Linear(width, 1),
        })

    def forward(self, x):
        z = self.trunk(x)
        return {name: head(z) for name, head in self.heads.items()}


def task_losses(out, batch) -> Dict[str, torch.Tensor]:
    normal = F.normalize(out["normal"], dim=-1)
    return {
        "depth": F.smooth_l1_loss(out["depth"].squeeze(-1), batch["depth"]),
        "normal": 1 - (normal * batch["normal"]).sum(-1).mean(),
        "occupancy": F.cross_entropy(out["occupancy"], batch["occupancy"]),
        "speed": F.mse_loss(out["speed"].squeeze(-1), batch["speed"]),
    }


class PCGrad:
    def __init__(self, optimizer, shared: List[nn.Parameter], rng: random.Random):
        self.optimizer = optimizer
        self.shared = shared
        self.rng = rng

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)

    def _flat_grads(self, losses):
        flat = []
        for loss in losses:
            grads = torch.autograd.grad(loss, self.shared, retain_graph=True)
            flat.append(torch.cat([g.reshape(-1) for g in grads]))
        return flat

    def _project(self, grads):
        projected = []
        for i, g in enumerate(grads):
            others = [j for j in range(len(grads)) if j != i]
            self.rng.shuffle(others)
            g = g.clone()
            for j in others:
                dot = torch.dot(g, grads[j]).clamp(max=0.0)
                g = g - dot / grads[j].square().sum().clamp(min=1e-12) * grads[j]
            projected.append(g)
        return torch.stack(projected).mean(dim=0)

    def backward(self, losses):
        losses = list(losses)
        flat = self._flat_grads(losses)
        merged = self._project([g.detach() for g in flat])
        sum(losses).backward()
        offset = 0
        for p in self.shared:
            n = p.numel()
            p.grad = merged[offset:offset + n].view_as(p)
            offset += n

    def step(self):
        self.optimizer.step()


def make_batch(generator, teacher):
    x = torch.randn(BATCH, 24, generator=generator)
    latent = torch.tanh(x @ teacher)
    return x, {
        "depth": latent[:, 0] * 2 + 3,
        "normal": F.normalize(latent[:, 1:4], dim=-1),
        "occupancy": latent[:, 4:8].argmax(-1),
        "speed": latent[:, 8] - latent[:, 0],
    }


def main():
    torch.manual_seed(41)
    rng = random.Random(41)
    generator = torch.Generator().manual_seed(41)
    teacher = torch.randn(24, 9, generator=generator) / 24 ** 0.5
    device = xm.xla_device()

    model = Scene().to(device)
    base = torch.optim.Adam(model.parameters(), lr=2e-3)
    optimizer = PCGrad(base, list(model.trunk.parameters()), rng)
    torch_xla.sync()

    model.train()
    for step in range(STEPS):
        x, targets = make_batch(generator, teacher)
        x = x.to(device)
        targets = {k: v.to(device) for k, v in targets.items()}

        optimizer.zero_grad()
        losses = task_losses(model(x), targets)
        optimizer.backward(losses[t] for t in TASKS)
        optimizer.step()
        torch_xla.sync()

        if (step + 1) % 6 == 0:
            text = " ".join(f"{t}={losses[t].item():.3f}" for t in TASKS)
            print(f"step {step + 1:3d} {text}")


if __name__ == "__main__":
    main()
