"""Implicit graph network: node states are the equilibrium of one message-passing layer."""
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class SubgraphLoader:
    """Draws subgraphs of a fixed number of nodes from random community graphs."""

    def __init__(self, nodes=24, batch=6, classes=3, feat=12, seed=0):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.batch, self.classes = nodes, batch, classes
        self.proto = self.rng.standard_normal((classes, feat)).astype(np.float32)

    def sample(self):
        rng, n = self.rng, self.nodes
        y = rng.integers(0, self.classes, (self.batch, n))
        same = y[:, :, None] == y[:, None, :]
        p_in = rng.uniform(0.1, 0.6)
        adj = rng.random((self.batch, n, n)) < np.where(same, p_in, 0.05)
        adj = np.triu(adj, 1)
        adj = (adj | adj.transpose(0, 2, 1)).astype(np.float32) + np.eye(n, dtype=np.float32)
        deg = adj.sum(-1)
        adj = adj / np.sqrt(deg[:, :, None] * deg[:, None, :])
        x = self.proto[y] * rng.uniform(0.05, 3.0) + rng.standard_normal((self.batch, n, self.proto.shape[1]))
        return torch.from_numpy(adj), torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


class EquilibriumLayer(nn.Module):
    def __init__(self, dim, tol=2e-2, max_iter=10):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim, dim))
        nn.init.orthogonal_(self.weight, gain=0.7)
        self.tol, self.max_iter = tol, max_iter

    def f(self, z, adj, inject):
        return torch.tanh(adj @ z @ self.weight + inject)

    def forward(self, adj, inject):
        with torch.no_grad():
            z = torch.zeros_like(inject)
            for _ in range(self.max_iter):
                z_next = self.f(z, adj, inject)
                gap = (z_next - z).norm() / (z_next.norm() + 1e-6)
                z = z_next
                if gap < self.tol:
                    break
        return self.f(z, adj, inject)


class ImplicitGNN(nn.Module):
    def __init__(self, feat, dim, classes):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(feat, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.core = EquilibriumLayer(dim)
        self.decode = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, classes))

    def forward(self, adj, x):
        return self.decode(self.core(adj, self.encode(x)))


class Callback:
    def on_step_end(self, step, loss, acc):
        pass


class Printer(Callback):
    def __init__(self, every):
        self.every, self.start = every, time.time()

    def on_step_end(self, step, loss, acc):
        if step % self.every == 0:
            print(f"{step:3d} loss {loss.item():.4f} acc {acc.item():.3f} ({time.time() - self.start:.1f}s)")


def fit(model, loader, steps, device, callbacks):
    opt = torch.optim.RMSprop(model.parameters(), lr=4e-3)
    for step in range(steps):
        adj, x, y = (t.to(device) for t in loader.sample())
        logits = model(adj, x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        acc = (logits.argmax(-1) == y).float().mean()
        xm.mark_step()
        for cb in callbacks:
            cb.on_step_end(step, loss, acc)


def main():
    torch.manual_seed(7)
    device = torch_xla.device()
    loader = SubgraphLoader()
    model = ImplicitGNN(12, 24, 3).to(device)
    fit(model, loader, steps=30, device=device, callbacks=[Printer(6)])


if __name__ == "__main__":
    main()
