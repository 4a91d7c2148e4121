"""Multi-task credit model: four targets share one tabular trunk, gradients merged by projection."""
import copy
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TASKS = ["default", "prepay", "late30", "utilisation"]


class TabularTrunk(nn.Module):
    def __init__(self, cards, n_num, dim=8, hidden=48):
        super().__init__()
        self.embs = nn.ModuleList([nn.Embedding(c, dim) for c in cards])
        self.bn = nn.BatchNorm1d(n_num)
        width = dim * len(cards) + n_num
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.LayerNorm(hidden),
            nn.Linear(hidden, hidden), nn.GELU(),
        )

    def forward(self, cat, num):
        e = [emb(cat[:, i]) for i, emb in enumerate(self.embs)]
        return self.mlp(torch.cat(e + [self.bn(num)], dim=1))


class MultiTaskNet(nn.Module):
    def __init__(self, cards, n_num):
        super().__init__()
        self.trunk = TabularTrunk(cards, n_num)
        self.heads = nn.ModuleDict({t: nn.Sequential(nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 1)) for t in TASKS})

    def forward(self, cat, num):
        h = self.trunk(cat, num)
        return {t: head(h).squeeze(-1) for t, head in self.heads.items()}


class PCGrad:
    """Gradient surgery (Yu et al. 2020) around any optimizer."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.params = [p for g in optimizer.param_groups for p in g["params"]]

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)

    def _flat(self, loss):
        grads = torch.autograd.grad(loss, self.params, retain_graph=True, allow_unused=True)
        return torch.cat([(torch.zeros_like(p) if g is None else g).reshape(-1) for p, g in zip(self.params, grads)])

    def _project(self, grads):
        pc_grads = copy.copy(grads)
        for i in range(len(pc_grads)):
            g_i = pc_grads[i]
            others = [g for j, g in enumerate(grads) if j != i]
            random.shuffle(others)
            for g_j in others:
                dot = torch.dot(g_i, g_j).clamp(max=0.0)
                g_i = g_i - dot / (g_j.norm() ** 2 + 1e-8) * g_j
            pc_grads[i] = g_i
        return torch.stack(pc_grads).mean(dim=0)

    def step(self, losses):
        merged = self._project([self._flat(loss) for loss in losses])
        offset = 0
        for p in self.params:
            n = p.numel()
            p.grad = merged[offset:offset + n].view_as(p)
            offset += n
        self.optimizer.step()


def make_table(n, cards, n_num, rng):
    cat = np.stack([rng.integers(0, c, n) for c in cards], 1)
    num = rng.normal(size=(n, n_num)).astype("float32")
    z = num @ rng.normal(size=(n_num, 4)) + (cat[:, :1] % 3 - 1)
    y = (z + rng.normal(size=z.shape) > 0).astype("float32")
    y[:, 3] = z[:, 3]
    return torch.from_numpy(cat), torch.from_numpy(num), torch.from_numpy(y.astype("float32"))


def main():
    random.seed(3)
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    device = torch_xla.device()
    cards = [12, 7, 30]
    cat, num, y = make_table(768, cards, 10, rng)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(cat, num, y), batch_size=64, shuffle=True, drop_last=True)

    net = MultiTaskNet(cards, 10).to(device)
    opt = PCGrad(torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2))

    step = 0
    for epoch in range(1):
        for c, x, t in loader:
            c, x, t = c.to(device), x.to(device), t.to(device)
            out = net(c, x)
            losses = [F.binary_cross_entropy_with_logits(out[k], t[:, i]) for i, k in enumerate(TASKS[:3])]
            losses.append(F.smooth_l1_loss(out["utilisation"], t[:, 3]))
            opt.zero_grad()
            opt.step(losses)
            torch_xla.sync()
            step += 1
            if step % 4 == 0:
                print(f"epoch {epoch} step {step} " + " ".join(f"{k}={l.item():.3f}" for k, l in zip(TASKS, losses)))


if __name__ == "__main__":
    main()
