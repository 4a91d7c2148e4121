"""Hospital admissions, three binary outcomes from one tabular encoder, gradients combined with PCGrad."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset

TASKS = ("readmit", "icu", "mortality")
STEPS = 20
BATCH = 64


def make_cohort(n=1024, seed=11):
    rng = np.random.default_rng(seed)
    num = rng.normal(size=(n, 10)).astype(np.float32)
    cat = rng.integers(0, 12, size=(n, 3))
    logits = num @ rng.normal(size=(10, len(TASKS))) + np.array([-0.5, -1.5, -2.5])
    y = (rng.uniform(size=logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.float32)
    return TensorDataset(torch.from_numpy(num), torch.from_numpy(cat), torch.from_numpy(y))


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(12, 4) for _ in range(3))
        self.norm = nn.LayerNorm(10)
        self.net = nn.Sequential(nn.Linear(10 + 12, width), nn.GELU(), nn.Dropout(0.1))

    def forward(self, num, cat):
        parts = [e(cat[:, i]) for i, e in enumerate(self.emb)]
        return self.net(torch.cat([self.norm(num)] + parts, dim=1))


class FocalBCE(nn.Module):
    """Binary focal loss. gamma goes from 0 (plain BCE) to its final value during warm-up."""

    def __init__(self, gamma_final=2.0, warmup=60, alpha=0.6):
        super().__init__()
        self.gamma_final, self.warmup, self.alpha = gamma_final, warmup, alpha
        self.t = 0

    def tick(self):
        self.t += 1

    @property
    def gamma(self):
        return self.gamma_final * min(1.0, self.t / self.warmup)

    def forward(self, logit, target):
        ce = F.binary_cross_entropy_with_logits(logit, target, reduction="none")
        p_t = torch.exp(-ce)
        weight = self.alpha * target + (1 - self.alpha) * (1 - target)
        return (weight * (1 - p_t).clamp(min=1e-6) ** self.gamma * ce).mean()


class PCGrad:
    """Project conflicting task gradients on each other's normal plane (Yu et al. 2020)."""

    def __init__(self, params):
        self.params = [p for p in params if p.requires_grad]

    def _flat_grad(self, loss):
        grads = torch.autograd.grad(loss, self.params, retain_graph=True)
        return torch.cat([g.reshape(-1) for g in grads])

    def backward(self, losses):
        grads = [self._flat_grad(l) for l in losses]
        projected = []
        for i, g in enumerate(grads):
            others = [grads[j] for j in range(len(grads)) if j != i]
            random.shuffle(others)
            for h in others:
                coef = torch.dot(g, h).clamp(max=0.0) / (torch.dot(h, h) + 1e-12)
                g = g - coef * h
            projected.append(g)
        merged = torch.stack(projected).mean(0)
        offset = 0
        for p in self.params:
            p.grad = merged[offset:offset + p.numel()].view_as(p)
            offset += p.numel()


def main():
    random.seed(0)
    torch.manual_seed(0)
    device = xm.xla_device()
    loader = DataLoader(make_cohort(), batch_size=BATCH, shuffle=True, drop_last=True)

    encoder = Encoder().to(device)
    heads = nn.ModuleDict({t: nn.Linear(32, 1) for t in TASKS}).to(device)
    criterion = FocalBCE()
    shared = PCGrad(encoder.parameters())
    opt = torch.optim.AdamW(list(encoder.parameters()) + list(heads.parameters()), lr=2e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)

    step, running = 0, torch.zeros(len(TASKS), device=device)
    while step < STEPS:
        for num, cat, y in loader:
            num, cat, y = num.to(device), cat.to(device), y.to(device)
            z = encoder(num, cat)
            losses = [criterion(heads[t](z).squeeze(-1), y[:, k]) for k, t in enumerate(TASKS)]
            opt.zero_grad(set_to_none=True)
            head_params = list(heads.parameters())
            head_grads = torch.autograd.grad(sum(losses), head_params, retain_graph=True)
            for p, g in zip(head_params, head_grads):
                p.grad = g
            shared.backward(losses)
            opt.step()
            sched.step()
            criterion.tick()
            running = 0.9 * running + 0.1 * torch.stack(losses).detach()
            xm.mark_step()
            step += 1
            if step % 10 == 0:
                line = "  ".join(f"{t} {v:.4f}" for t, v in zip(TASKS, running.tolist()))
                print(f"step {step}: {line}")
            if step == STEPS:
                break


if __name__ == "__main__":
    main()
