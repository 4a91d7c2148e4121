"""Multi-task street scene regression with gradient surgery (PCGrad) on a shared trunk."""
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

STEPS, BATCH, FEATS, HIDDEN = 21, 32, 16, 24


class SceneFeatures:
    """Precomputed descriptors with four correlated labels."""

    def __init__(self, seed):
        g = torch.Generator().manual_seed(seed)
        self.g = g
        self.mix = torch.randn(FEATS, 6, generator=g) / FEATS ** 0.5

    def batch(self, n):
        x = torch.randn(n, FEATS, generator=self.g)
        z = torch.tanh(x @ self.mix)
        noise = 0.1 * torch.randn(n, 4, generator=self.g)
        return x, {
            "depth": z[:, :1] * 2 + z[:, 1:2] + noise[:, :1],
            "normal": F.normalize(z[:, 1:4], dim=-1),
            "segment": z[:, 2:6].argmax(-1),
            "edge": (z[:, 4:5] * z[:, 5:6] + noise[:, 3:] > 0).float(),
        }


def depth_loss(out, y):
    return F.l1_loss(out, y)


def normal_loss(out, y):
    return (1 - F.cosine_similarity(out, y, dim=-1)).mean()


def segment_loss(out, y):
    return F.cross_entropy(out, y)


def edge_loss(out, y):
    return F.binary_cross_entropy_with_logits(out, y)


TASKS = {
    "depth": (1, depth_loss),
    "normal": (3, normal_loss),
    "segment": (4, segment_loss),
    "edge": (1, edge_loss),
}


class MultiTaskNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(FEATS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
        self.heads = nn.ModuleDict({k: nn.Linear(HIDDEN, n) for k, (n, _) in TASKS.items()})

    def forward(self, x):
        h = self.trunk(x)
        return {k: head(h) for k, head in self.heads.items()}


class PCGrad:
    """Yu et al. 2020: drop from each task gradient what conflicts with the others."""

    def __init__(self, optimizer, shared):
        self.optimizer = optimizer
        self.shared = list(shared)
        self.sizes = [p.numel() for p in self.shared]

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)

    def step(self):
        self.optimizer.step()

    def _flat(self, loss):
        grads = torch.autograd.grad(loss, self.shared, retain_graph=True)
        return torch.cat([g.reshape(-1) for g in grads])

    def _project(self, grads):
        others = list(grads)
        projected = []
        for g in grads:
            g_i = g
            random.shuffle(others)
            for g_j in others:
                if g_j is g:
                    continue
                dot = (g_i * g_j).sum().clamp(max=0.0)
                g_i = g_i - dot / (g_j.square().sum() + 1e-12) * g_j
            projected.append(g_i)
        return torch.stack(projected).sum(0)

    def backward(self, losses, head_params):
        merged = self._project([self._flat(l) for l in losses])
        for p, chunk in zip(self.shared, merged.split(self.sizes)):
            p.grad = chunk.view_as(p)
        for p, g in zip(head_params, torch.autograd.grad(sum(losses), head_params)):
            p.grad = g


@torch.no_grad()
def validate(net, x, y):
    net.eval()
    out = net(x)
    vals = torch.stack([fn(out[k], y[k]) for k, (_, fn) in TASKS.items()])
    net.train()
    return dict(zip(TASKS, vals.tolist()))


def main():
    random.seed(1)
    torch.manual_seed(1)
    device = torch_xla.device()
    source = SceneFeatures(seed=2)
    net = MultiTaskNet().to(device)
    opt = PCGrad(torch.optim.SGD(net.parameters(), lr=0.1), net.trunk.parameters())
    head_params = list(net.heads.parameters())
    vx, vy = source.batch(64)
    vx, vy = vx.to(device), {k: v.to(device) for k, v in vy.items()}
    torch_xla.sync()

    curves = defaultdict(list)
    for step in range(STEPS):
        x, y = source.batch(BATCH)
        x, y = x.to(device), {k: v.to(device) for k, v in y.items()}
        out = net(x)
        losses = [fn(out[k], y[k]) for k, (_, fn) in TASKS.items()]
        opt.zero_grad()
        opt.backward(losses, head_params)
        opt.step()
        torch_xla.sync()
        if (step + 1) % 7 == 0:
            scores = validate(net, vx, vy)
            for k, v in scores.items():
                curves[k].append(round(v, 3))
            print(f"step {step + 1} " + " ".join(f"{k} {v:.3f}" for k, v in scores.items()))
    print({k: v[-1] - v[0] for k, v in curves.items()})


if __name__ == "__main__":
    main()
