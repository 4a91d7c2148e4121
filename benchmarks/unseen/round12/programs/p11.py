"""Multi-task ranking (click / like / share / dwell) with a shared MMoE trunk
and gradient surgery over the task gradients."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = dict(
    users=400, items=900, dim=12, experts=3, expert_dim=24,
    tasks=("click", "like", "share", "dwell"), tower_dims=(16, 12, 8, 24),
    batch=64, steps=12, lr=2e-3, log_every=4, seed=11,
)


class MMoE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d, e = cfg["dim"], cfg["expert_dim"]
        self.user = nn.Embedding(cfg["users"], d)
        self.item = nn.Embedding(cfg["items"], d)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * d + 4, e), nn.ReLU(), nn.Linear(e, e), nn.ReLU())
            for _ in range(cfg["experts"]))
        self.gates = nn.ModuleDict({t: nn.Linear(2 * d + 4, cfg["experts"]) for t in cfg["tasks"]})
        self.towers = nn.ModuleDict(
            {t: nn.Sequential(nn.Linear(e, w), nn.ReLU(), nn.Linear(w, 1))
             for t, w in zip(cfg["tasks"], cfg["tower_dims"])})

    def shared_parameters(self):
        for m in (self.user, self.item, self.experts):
            yield from m.parameters()

    def task_parameters(self, task):
        yield from self.gates[task].parameters()
        yield from self.towers[task].parameters()

    def forward(self, user, item, dense):
        x = torch.cat([self.user(user), self.item(item), dense], dim=1)
        h = torch.stack([ex(x) for ex in self.experts], dim=1)
        out = {}
        for task, gate in self.gates.items():
            w = torch.softmax(gate(x), dim=1).unsqueeze(-1)
            out[task] = self.towers[task]((w * h).sum(1)).squeeze(1)
        return out


class PCGrad:
    """Projecting Conflicting Gradients (Yu et al., 2020)."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.shared = list(model.shared_parameters())

    def backward(self, losses):
        grads = []
        for task, loss in losses.items():
            own = list(self.model.task_parameters(task))
            g = torch.autograd.grad(loss, self.shared + own, retain_graph=True)
            for p, gp in zip(own, g[len(self.shared):]):
                p.grad = gp
            grads.append(torch.cat([x.reshape(-1) for x in g[:len(self.shared)]]))
        merged = self._project(grads)
        start = 0
        for p in self.shared:
            p.grad = merged[start:start + p.numel()].view_as(p)
            start += p.numel()

    def _project(self, grads):
        projected = [g.clone() for g in grads]
        for i in range(len(projected)):
            random.shuffle(grads)
            for g_j in grads:
                dot = torch.dot(projected[i], g_j)
                scale = torch.clamp(dot, max=0.0) / (g_j.square().sum() + 1e-10)
                projected[i] = projected[i] - scale * g_j
        return torch.stack(projected).mean(0)

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


def make_batch(cfg, rng):
    n = cfg["batch"]
    user = torch.from_numpy(rng.integers(0, cfg["users"], n))
    item = torch.from_numpy(rng.integers(0, cfg["items"], n))
    dense = torch.from_numpy(rng.normal(size=(n, 4)).astype("float32"))
    score = dense.sum(1) + 0.01 * (user % 17 - item % 13)
    labels = {t: (score + 0.5 * k > k).float() for k, t in enumerate(cfg["tasks"])}
    labels["dwell"] = torch.log1p(torch.relu(score) * 30)
    return user, item, dense, labels


def main(cfg):
    random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    rng = np.random.default_rng(cfg["seed"])
    device = torch_xla.device()
    model = MMoE(cfg).to(device)
    opt = PCGrad(model, torch.optim.Adagrad(model.parameters(), lr=cfg["lr"]))
    torch_xla.sync()

    for step in range(1, cfg["steps"] + 1):
        user, item, dense, labels = make_batch(cfg, rng)
        preds = model(user.to(device), item.to(device), dense.to(device))
        losses = {t: F.binary_cross_entropy_with_logits(preds[t], labels[t].to(device))
                  for t in cfg["tasks"] if t != "dwell"}
        losses["dwell"] = F.smooth_l1_loss(preds["dwell"], labels["dwell"].to(device))
        opt.backward(losses)
        opt.step()
        torch_xla.sync()
        if step % cfg["log_every"] == 0:
            print(f"step {step} " + " ".join(f"{t}={l.item():.4f}" for t, l in losses.items()))


if __name__ == "__main__":
    main(CFG)
