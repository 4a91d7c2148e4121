"""Multi-objective ranking (click, like, dwell) with projected conflicting gradients."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

USERS, ITEMS, DENSE = 200, 120, 6
OBJECTIVES = ("click", "like", "dwell")


class SharedBottom(nn.Module):
    def __init__(self, dim=12, hidden=32):
        super().__init__()
        self.user = nn.Embedding(USERS, dim)
        self.item = nn.Embedding(ITEMS, dim)
        self.cross = nn.Linear(2 * dim + DENSE, 2 * dim + DENSE)
        self.mlp = nn.Sequential(nn.Linear(2 * dim + DENSE, hidden), nn.ReLU(),
                                 nn.Linear(hidden, hidden), nn.ReLU())

    def forward(self, user, item, dense):
        x = torch.cat([self.user(user), self.item(item), dense], dim=1)
        return self.mlp(x * self.cross(x) + x)


class Ranker(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.shared = SharedBottom(hidden=hidden)
        self.towers = nn.ModuleDict(
            {o: nn.Sequential(nn.Linear(hidden, 16), nn.ReLU(), nn.Linear(16, 1)) for o in OBJECTIVES})

    def forward(self, user, item, dense):
        h = self.shared(user, item, dense)
        return {o: tower(h).squeeze(1) for o, tower in self.towers.items()}


class PCGrad:
    """Gradient surgery (Yu et al. 2020) around a plain optimizer."""

    def __init__(self, optimizer, params):
        self.optimizer = optimizer
        self.params = list(params)

    def _flat_grad(self, loss):
        grads = torch.autograd.grad(loss, self.params, retain_graph=True, allow_unused=True)
        return torch.cat([(torch.zeros_like(p) if g is None else g).flatten()
                          for p, g in zip(self.params, grads)])

    def _project(self, grads):
        others = list(grads)
        merged = torch.zeros_like(grads[0])
        for g in grads:
            g_i = g.clone()
            random.shuffle(others)
            for g_j in others:
                if g_j is g:
                    continue
                dot = torch.dot(g_i, g_j)
                g_i = g_i - dot.clamp(max=0.0) * g_j / (g_j.pow(2).sum() + 1e-12)
            merged = merged + g_i
        return merged / len(grads)

    def step(self, losses):
        flat = self._project([self._flat_grad(l) for l in losses])
        offset = 0
        for p in self.params:
            p.grad = flat[offset:offset + p.numel()].view_as(p)
            offset += p.numel()
        self.optimizer.step()
        self.optimizer.zero_grad()


def impressions(n_batches, batch, seed):
    gen = torch.Generator().manual_seed(seed)
    for _ in range(n_batches):
        user = torch.randint(0, USERS, (batch,), generator=gen)
        item = torch.randint(0, ITEMS, (batch,), generator=gen)
        dense = torch.randn(batch, DENSE, generator=gen)
        affinity = ((user + item) % 7).float() / 7 + 0.2 * dense[:, 0]
        yield user, item, dense, {
            "click": (affinity > 0.4).float(),
            "like": (affinity > 0.8).float(),
            "dwell": affinity * 3,
        }


def objective_losses(pred, label):
    return [
        F.binary_cross_entropy_with_logits(pred["click"], label["click"]),
        F.binary_cross_entropy_with_logits(pred["like"], label["like"]),
        F.smooth_l1_loss(pred["dwell"], label["dwell"]),
    ]


def main():
    torch.manual_seed(7)
    random.seed(7)
    device = torch_xla.device()
    model = Ranker().to(device)
    surgery = PCGrad(torch.optim.Adagrad(model.parameters(), lr=0.02), model.parameters())
    for step, (user, item, dense, label) in enumerate(impressions(20, 32, seed=1)):
        pred = model(user.to(device), item.to(device), dense.to(device))
        losses = objective_losses(pred, {k: v.to(device) for k, v in label.items()})
        surgery.step(losses)
        torch_xla.sync()
        if step % 5 == 0:
            shown = ", ".join(f"{o} {l.item():.4f}" for o, l in zip(OBJECTIVES, losses))
            print(f"[{step:03d}] {shown}")


if __name__ == "__main__":
    main()
