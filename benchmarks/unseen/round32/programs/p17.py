"""Multi-task tabular model: four rare binary outcomes of loans, shared trunk, gradient surgery.

Gradients of the tasks are projected as in PCGrad (Yu et al., 2020) before they are summed; the
positives are rare, so each head has a focal loss whose focus is sharpened during training.
"""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

TASKS = ("default", "prepay", "dispute", "fraud")
N_ROWS, N_NUM, CARDINALITIES = 4096, 6, (12, 5)
BATCH, STEPS, LR = 64, 18, 3e-3


def make_table(rng):
    num = rng.normal(size=(N_ROWS, N_NUM)).astype(np.float32)
    num[:, 0] = np.exp(num[:, 0])
    num = (num - num.mean(0)) / num.std(0)
    cat = np.stack([rng.integers(0, c, N_ROWS) for c in CARDINALITIES], axis=1)
    w = rng.normal(size=(N_NUM, len(TASKS)))
    score = num @ w + 0.3 * (cat[:, :1] - 6)
    cut = np.quantile(score, [0.85, 0.8, 0.9, 0.95])
    label = np.stack([score[:, i] > cut[i] for i in range(len(TASKS))], axis=1)
    return num, cat, label.astype(np.float32)


class Trunk(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.emb = nn.ModuleList([nn.Embedding(c, 4) for c in CARDINALITIES])
        self.fc = nn.Linear(N_NUM + 4 * len(CARDINALITIES), width)

    def forward(self, num, cat):
        parts = [num] + [e(cat[:, i]) for i, e in enumerate(self.emb)]
        return F.silu(self.fc(torch.cat(parts, dim=1)))


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.75):
        super().__init__()
        self.alpha = alpha
        self.gamma = 0.5

    def set_progress(self, frac, lo=0.5, hi=2.5):
        self.gamma = lo + (hi - lo) * frac

    def forward(self, logit, target):
        ce = F.binary_cross_entropy_with_logits(logit, target, reduction="none")
        p = torch.sigmoid(logit)
        p_t = p * target + (1 - p) * (1 - target)
        weight = self.alpha * target + (1 - self.alpha) * (1 - target)
        return (weight * (1 - p_t).clamp_min(1e-4) ** self.gamma * ce).mean()


class PCGrad:
    """Wraps an optimizer; removes the conflicting component between the gradients of tasks."""

    def __init__(self, optimizer, shared):
        self.optimizer = optimizer
        self.shared = list(shared)

    def _flatten(self, grads):
        return torch.cat([g.reshape(-1) for g in grads])

    def _project(self, grads):
        projected = []
        for g in grads:
            g_pc = g.clone()
            others = [h for h in grads if h is not g]
            random.shuffle(others)
            for h in others:
                dot = torch.dot(g_pc, h)
                coef = torch.clamp(dot, max=0.0) / (h.pow(2).sum() + 1e-12)
                g_pc = g_pc - coef * h
            projected.append(g_pc)
        return torch.stack(projected).sum(0)

    def backward(self, losses):
        flat = []
        for loss in losses:
            grads = torch.autograd.grad(loss, self.shared, retain_graph=True)
            flat.append(self._flatten(grads))
        merged = self._project(flat)
        offset = 0
        sum(losses).backward()
        for p in self.shared:
            n = p.numel()
            p.grad = merged[offset : offset + n].view_as(p)
            offset += n

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


def main():
    random.seed(17)
    torch.manual_seed(17)
    rng = np.random.default_rng(17)
    device = torch_xla.device()

    num, cat, label = make_table(rng)
    trunk = Trunk().to(device)
    heads = nn.ModuleList([nn.Linear(16, 1) for _ in TASKS]).to(device)
    optimizer = torch.optim.SGD(
        [*trunk.parameters(), *heads.parameters()], lr=LR * 20, momentum=0.9
    )
    surgery = PCGrad(optimizer, trunk.parameters())
    criterion = FocalLoss()
    running = torch.zeros(len(TASKS), device=device)
    xm.mark_step()

    for step in range(STEPS):
        rows = rng.choice(N_ROWS, BATCH, replace=False)
        x = torch.from_numpy(num[rows]).to(device)
        c = torch.from_numpy(cat[rows]).to(device)
        y = torch.from_numpy(label[rows]).to(device)

        criterion.set_progress(step / STEPS)
        hidden = trunk(x, c)
        losses = [criterion(head(hidden).squeeze(1), y[:, i]) for i, head in enumerate(heads)]
        surgery.backward(losses)
        surgery.step()
        running = 0.9 * running + 0.1 * torch.stack(losses).detach()
        xm.mark_step()

        if (step + 1) % 6 == 0:
            values = running.tolist()
            print(step + 1, "  ".join(f"{t} {v:.4f}" for t, v in zip(TASKS, values)))


if __name__ == "__main__":
    main()
