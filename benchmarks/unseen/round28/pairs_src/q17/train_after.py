"""Tensor parallel feed-forward ranker under SPMD."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()


class ExpertMLP(nn.Module):
    """Gated feed-forward (SwiGLU)"""

    def __init__(self, dim, inner):
        super().__init__()
        self.norm = nn.RMSNorm(dim)
        self.w_gate = nn.Linear(dim, inner, bias=False)
        self.w_up = nn.Linear(dim, inner, bias=False)
        self.w_down = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        h = self.norm(x)
        return x + self.w_down(F.silu(self.w_gate(h)) * self.w_up(h))


class Ranker(nn.Module):
    def __init__(self, features=12, dim=16, inner=32, depth=2):
        super().__init__()
        self.inp = nn.Linear(features, dim)
        self.layers = nn.ModuleList([ExpertMLP(dim, inner) for _ in range(depth)])
        self.score = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.inp(x)
        for layer in self.layers:
            x = layer(x)
        return self.score(x).squeeze(-1)


def build_mesh():
    n = xr.global_runtime_device_count()
    model = 2 if n % 2 == 0 else 1
    return xs.Mesh(np.arange(n), (n // model, model), ("data", "model"))


def shard(model, mesh):
    for layer in model.layers:
        xs.mark_sharding(layer.w_gate.weight, mesh, ("model", None))
        xs.mark_sharding(layer.w_up.weight, mesh, ("model", None))
        xs.mark_sharding(layer.w_down.weight, mesh, ("model", None))


def pairwise_loss(scores, relevance):
    diff = scores.unsqueeze(2) - scores.unsqueeze(1)
    better = (relevance.unsqueeze(2) > relevance.unsqueeze(1)).float()
    return (F.softplus(-diff) * better).sum() / better.sum().clamp(min=1.0)


def queries(steps, n_query=8, n_doc=5, features=12):
    rng = np.random.default_rng(17)
    w = rng.normal(size=features)
    for _ in range(steps):
        x = rng.normal(size=(n_query, n_doc, features)).astype(np.float32)
        rel = np.digitize(x @ w, [-2.0, 0.0, 2.0]).astype(np.float32)
        yield torch.from_numpy(x), torch.from_numpy(rel)


def main():
    torch.manual_seed(2)
    device = torch_xla.device()
    mesh = build_mesh()
    model = Ranker().to(device)
    shard(model, mesh)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    torch_xla.sync()

    for step, (x, rel) in enumerate(queries(4)):
        x, rel = x.to(device), rel.to(device)
        xs.mark_sharding(x, mesh, ("data", None, None))
        xs.mark_sharding(rel, mesh, ("data", None))
        opt.zero_grad()
        loss = pairwise_loss(model(x), rel)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(f"[{step}] {loss.item():.5f}")


if __name__ == "__main__":
    main()
