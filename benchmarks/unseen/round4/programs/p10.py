"""Continual regression with SPMD over four devices: the task changes now and then, and the head is reset when it does
("primacy bias" resets, as in Nikishin et al.)."""
import os

os.environ.setdefault("CPU_NUM_DEVICES", "4")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()

BATCH, FEAT, HID, OUT = 16, 16, 32, 8
RESET_EVERY = 6


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(FEAT, HID, bias=False)
        self.mid = nn.Linear(HID, HID, bias=False)

    def forward(self, x):
        return F.gelu(self.mid(F.gelu(self.up(x))))


class Learner:
    def __init__(self, device, mesh):
        self.device, self.mesh = device, mesh
        self.trunk = Trunk().to(device)
        self.head = nn.Linear(HID, OUT, bias=False).to(device)
        xs.mark_sharding(self.trunk.up.weight, mesh, ("model", None))
        xs.mark_sharding(self.trunk.mid.weight, mesh, (None, "model"))
        xs.mark_sharding(self.head.weight, mesh, ("model", None))
        self.opt = torch.optim.SGD([*self.trunk.parameters(), *self.head.parameters()], lr=2e-2)
        torch_xla.sync()

    def reset_head(self):
        fresh = nn.Linear(HID, OUT, bias=False)
        with torch.no_grad():
            for p, q in zip(self.head.parameters(), fresh.parameters()):
                p.data = q.data.to(self.device)
        torch_xla.sync()

    def train_step(self, x, y):
        x, y = x.to(self.device), y.to(self.device)
        xs.mark_sharding(x, self.mesh, ("data", None))
        xs.mark_sharding(y, self.mesh, ("data", None))
        loss = F.mse_loss(self.head(self.trunk(x)), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss


def tasks(steps, seed):
    rng = np.random.default_rng(seed)
    for s in range(steps):
        if s % RESET_EVERY == 0:
            w = rng.normal(size=(FEAT, OUT)) / 4
        x = rng.normal(size=(BATCH, FEAT))
        yield s, torch.tensor(x, dtype=torch.float32), torch.tensor(np.tanh(x @ w), dtype=torch.float32)


def main(steps=18):
    torch.manual_seed(0)
    n = xr.global_runtime_device_count()
    mesh = xs.Mesh(np.arange(n), (n // 2, 2), ("data", "model"))
    learner = Learner(torch_xla.device(), mesh)
    for s, x, y in tasks(steps, 0):
        if s > 0 and s % RESET_EVERY == 0:
            learner.reset_head()
            xm.master_print(f"step {s}: new task, head reset")
        loss = learner.train_step(x, y)
    xm.master_print(f"last loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
