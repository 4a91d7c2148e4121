"""Two-way data / two-way tensor parallel regression MLP with GSPMD annotations."""
import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.runtime as xr
import torch_xla.distributed.spmd as xs

FEATURES, WIDTH, TARGETS = 20, 64, 4
BATCH, STEPS, DEPTH = 16, 3, 2


class GatedFFN(nn.Module):

    def __init__(self, dim, inner):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.gate = nn.Linear(dim, inner, bias=False)
        self.up = nn.Linear(dim, inner, bias=False)
        self.down = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(torch.sigmoid(self.gate(h)) * self.up(h))


class Net(nn.Module):

    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(FEATURES, WIDTH)
        self.blocks = nn.ModuleList(GatedFFN(WIDTH, 2 * WIDTH) for _ in range(DEPTH))
        self.out = nn.Linear(WIDTH, TARGETS)

    def forward(self, x):
        x = self.inp(x)
        for blk in self.blocks:
            x = blk(x)
        return self.out(x)


def build_mesh():
    n = xr.global_runtime_device_count()
    model_ways = 2 if n % 2 == 0 else 1
    return xs.Mesh(np.arange(n), (n // model_ways, model_ways), ("data", "model"))


def shard_parameters(net, mesh):
    for blk in net.blocks:
        xs.mark_sharding(blk.gate.weight, mesh, ("model", None))
        xs.mark_sharding(blk.up.weight, mesh, ("model", None))
        xs.mark_sharding(blk.down.weight, mesh, (None, "model"))


def friedman(n):
    x = torch.rand(n, FEATURES)
    a = 10 * torch.sin(np.pi * x[:, 0] * x[:, 1])
    b = 20 * (x[:, 2] - 0.5) ** 2
    c = 10 * x[:, 3] + 5 * x[:, 4]
    y = torch.stack([a, b, c, a + b + c], dim=1)
    return x, (y - y.mean(0)) / y.std(0)


def huber(pred, target, delta=1.0):
    err = (pred - target).abs()
    return torch.where(err < delta, 0.5 * err * err, delta * (err - 0.5 * delta)).mean()


def main():
    xr.use_spmd()
    torch.manual_seed(0)
    device = torch_xla.device()
    mesh = build_mesh()

    net = Net().to(device)
    shard_parameters(net, mesh)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.02, initial_accumulator_value=0.1)
    x_all, y_all = friedman(BATCH * STEPS)
    torch_xla.sync()

    for x, y in zip(x_all.split(BATCH), y_all.split(BATCH)):
        x, y = x.to(device), y.to(device)
        xs.mark_sharding(x, mesh, ("data", None))
        xs.mark_sharding(y, mesh, ("data", None))
        opt.zero_grad()
        loss = huber(net(x), y)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print("loss", round(loss.item(), 5))


if __name__ == "__main__":
    main()
