"""Multi-task driver monitoring: gaze direction, drowsiness level, hands-on-wheel.

One shared encoder over a window of face landmarks, three light heads. The
gradients of the tasks on the shared encoder are reconciled with gradient
surgery (Yu et al., 2020) before the update.
"""
import random
from typing import Dict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LANDMARKS = 12
WINDOW = 8


class SharedEncoder(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.frame = nn.Linear(2 * LANDMARKS, width)
        self.temporal = nn.Conv1d(width, width, 3, padding=1)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        h = F.silu(self.frame(x))
        h = h + F.silu(self.temporal(h.transpose(1, 2))).transpose(1, 2)
        return self.norm(h.mean(dim=1))


class Heads(nn.ModuleDict):
    def __init__(self, width=24):
        super().__init__({
            "gaze": nn.Linear(width, 2),
            "drowsy": nn.Linear(width, 4),
            "hands": nn.Linear(width, 2),
        })


def task_losses(z, heads, batch) -> Dict[str, torch.Tensor]:
    return {
        "gaze": F.smooth_l1_loss(heads["gaze"](z), batch["gaze"]),
        "drowsy": F.cross_entropy(heads["drowsy"](z), batch["drowsy"], label_smoothing=0.05),
        "hands": F.binary_cross_entropy_with_logits(heads["hands"](z), batch["hands"]),
    }


class GradientSurgery:
    """Projects conflicting task gradients onto each other's normal plane."""

    def __init__(self, shared, seed):
        self.shared = list(shared)
        self.rng = random.Random(seed)

    def _flat(self, loss, keep_graph):
        for p in self.shared:
            p.grad = None
        loss.backward(retain_graph=keep_graph)
        return torch.cat([p.grad.reshape(-1) for p in self.shared])

    def backward(self, losses):
        names = list(losses)
        flat = {n: self._flat(losses[n], n != names[-1]) for n in names}
        merged = torch.zeros_like(flat[names[0]])
        for n in names:
            g = flat[n]
            others = [m for m in names if m != n]
            self.rng.shuffle(others)
            for m in others:
                ref = flat[m]
                overlap = torch.dot(g, ref).clamp(max=0.0)
                g = g - overlap / (ref.square().sum() + 1e-12) * ref
            merged = merged + g
        start = 0
        for p in self.shared:
            p.grad = merged[start:start + p.numel()].view_as(p)
            start += p.numel()


def simulate(n, gen):
    x = torch.randn(n, WINDOW, 2 * LANDMARKS, generator=gen)
    return {
        "x": x,
        "gaze": x[:, -1, :2] + 0.1 * torch.randn(n, 2, generator=gen),
        "drowsy": (x[..., 4].mean(dim=1) * 3 + 2).clamp(0, 3).long(),
        "hands": (x[:, :, 6:8].mean(dim=1) > 0).float(),
    }


def main(steps=20, batch_size=16, seed=31):
    torch.manual_seed(seed)
    gen = torch.Generator().manual_seed(seed)
    device = torch_xla.device()
    data = simulate(320, gen)

    encoder = SharedEncoder().to(device)
    heads = Heads().to(device)
    surgery = GradientSurgery(encoder.parameters(), seed)
    opt = torch.optim.SGD([*encoder.parameters(), *heads.parameters()], lr=0.05, momentum=0.9)

    for step in range(steps):
        pick = torch.randint(0, 320, (batch_size,), generator=gen)
        batch = {k: v[pick].to(device) for k, v in data.items()}
        losses = task_losses(encoder(batch["x"]), heads, batch)
        opt.zero_grad()
        surgery.backward(losses)
        opt.step()
        torch_xla.sync()
        if step % 10 == 9:
            print(step + 1, {k: round(v.item(), 4) for k, v in losses.items()})


if __name__ == "__main__":
    main()
