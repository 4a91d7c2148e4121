import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.wi = nn.Linear(dim, hidden)
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.wo = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.wo(F.silu(self.gate(x)) * self.wi(x))


class Regressor(nn.Module):
    def __init__(self, n_in=12, dim=16, hidden=32, depth=2):
        super().__init__()
        self.inp = nn.Linear(n_in, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.ffs = nn.ModuleList(Expert(dim, hidden) for _ in range(depth))
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.inp(x)
        for norm, ff in zip(self.norms, self.ffs):
            x = x + ff(norm(x))
        return self.out(x).squeeze(-1)


def build_mesh(model_axis=2):
    n = xr.global_runtime_device_count()
    return xs.Mesh(np.arange(n), (n // model_axis, model_axis), ("data", "model"))


def shard(model, mesh):
    for ff in model.ffs:
        xs.mark_sharding(ff.wi.weight, mesh, ("model", None))
        xs.mark_sharding(ff.gate.weight, mesh, ("model", None))
        xs.mark_sharding(ff.wo.weight, mesh, ("model", None))
    return model


def make_batch(gen, n=16, d=12):
    x = torch.randn(n, d, generator=gen)
    y = (x[:, 0] * x[:, 1] + x[:, 2].sin()).contiguous()
    return x, y


def main(steps=4):
    xr.use_spmd()
    torch.manual_seed(9)
    gen = torch.Generator().manual_seed(9)
    mesh = build_mesh()
    device = torch_xla.device()
    model = shard(Regressor().to(device), mesh)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8)
    torch_xla.sync()
    for step in range(steps):
        x, y = (t.to(device) for t in make_batch(gen))
        xs.mark_sharding(x, mesh, ("data", None))
        xs.mark_sharding(y, mesh, ("data",))
        opt.zero_grad()
        loss = F.smooth_l1_loss(model(x), y)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 2:
            print(step, loss.item())


if __name__ == "__main__":
    main()
