"""Multi-task property prediction for crystals with gradient surgery (PCGrad)."""
import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 77
FEATURES, HIDDEN = 40, 32
N_SAMPLES, BATCH, STEPS = 960, 48, 18
LOG_EVERY = 6


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(FEATURES, HIDDEN)
        self.mid = nn.Linear(HIDDEN, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, x):
        h = F.silu(self.inp(x))
        return self.norm(h + F.silu(self.mid(h)))


class GapHead(nn.Linear):
    """Band gap in eV, never negative."""

    def __init__(self):
        super().__init__(HIDDEN, 1)

    def loss(self, h, y):
        return F.smooth_l1_loss(F.softplus(self(h)).squeeze(-1), y)


class MetalHead(nn.Linear):
    def __init__(self):
        super().__init__(HIDDEN, 1)

    def loss(self, h, y):
        return F.binary_cross_entropy_with_logits(self(h).squeeze(-1), y)


class SystemHead(nn.Linear):
    """Seven crystal systems."""

    def __init__(self):
        super().__init__(HIDDEN, 7)

    def loss(self, h, y):
        return F.cross_entropy(self(h), y, label_smoothing=0.05)


class PCGrad:
    """Projects conflicting task gradients (Yu et al., 2020) on the shared parameters."""

    def __init__(self, optimizer, shared):
        self.optimizer = optimizer
        self.shared = list(shared)

    def _flat(self, grads):
        return torch.cat([g.reshape(-1) for g in grads])

    def _project(self, grads):
        others = list(grads)
        out = []
        for g_i in grads:
            g = g_i.clone()
            random.shuffle(others)
            for g_j in others:
                dot = torch.dot(g, g_j)
                g = g - dot.clamp(max=0.0) / g_j.pow(2).sum().clamp(min=1e-12) * g_j
            out.append(g)
        return torch.stack(out).sum(dim=0)

    def backward(self, losses, heads):
        flat = []
        for name, loss in losses.items():
            own = list(heads[name].parameters())
            grads = torch.autograd.grad(loss, self.shared + own, retain_graph=True)
            flat.append(self._flat(grads[: len(self.shared)]))
            for p, g in zip(own, grads[len(self.shared):]):
                p.grad = g
        merged = self._project(flat)
        offset = 0
        for p in self.shared:
            p.grad = merged[offset: offset + p.numel()].view_as(p)
            offset += p.numel()

    def step(self):
        self.optimizer.step()


def synthesize(n):
    g = torch.Generator().manual_seed(SEED)
    x = torch.randn(n, FEATURES, generator=g)
    w = torch.randn(FEATURES, 9, generator=g) / FEATURES ** 0.5
    z = x @ w + 0.1 * torch.randn(n, 9, generator=g)
    return {
        "x": x,
        "gap": z[:, 0].clamp(min=0.0),
        "metal": (z[:, 1] > 0).float(),
        "system": z[:, 2:9].argmax(dim=1),
    }


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch_xla.device()
    data = synthesize(N_SAMPLES)

    trunk = Trunk().to(device)
    heads = nn.ModuleDict(
        {"gap": GapHead(), "metal": MetalHead(), "system": SystemHead()}
    ).to(device)
    params = list(trunk.parameters()) + list(heads.parameters())
    optimizer = torch.optim.SGD(params, lr=0.05, momentum=0.9, nesterov=True)
    surgery = PCGrad(optimizer, trunk.parameters())

    order = torch.randperm(N_SAMPLES)
    for step in range(STEPS):
        lo = (step * BATCH) % N_SAMPLES
        idx = order[lo: lo + BATCH]
        batch = {k: v[idx].to(device) for k, v in data.items()}
        optimizer.zero_grad(set_to_none=True)
        h = trunk(batch["x"])
        losses = {name: head.loss(h, batch[name]) for name, head in heads.items()}
        surgery.backward(losses, heads)
        surgery.step()
        torch_xla.sync()
        if (step + 1) % LOG_EVERY == 0:
            text = "  ".join(f"{k} {v.item():.3f}" for k, v in losses.items())
            print(f"[{step + 1:3d}/{STEPS}] {text}", flush=True)


if __name__ == "__main__":
    main()
