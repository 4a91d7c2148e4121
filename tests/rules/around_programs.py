"""What stands around the training scripts of the catalogue: a small program of one's own."""

# ruff: noqa: F401, N812, N814 - a script may use what is imported here

import copy
import os

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP
from torch_xla.utils.checkpoint import checkpoint

PROGRAM = os.environ["PROGRAM"]
if "xs." in PROGRAM:
    import numpy as np
    import torch_xla.distributed.spmd as xs
    import torch_xla.runtime as xr

    xr.use_spmd()
    mesh = xs.Mesh(np.arange(4), (2, 2), ("data", "model"))

torch.manual_seed(0)
device = "xla"
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loss_fn = F.cross_entropy
dataset = TensorDataset(torch.randn(37, 16), torch.randint(0, 4, (37,)))
_batches = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(9)]
block0, block1 = (nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)).to(device) for _ in range(2))
head = nn.Linear(64, 4).to(device)
weight = torch.randn(32, 4, device=device)
torch_xla.sync()


def on_device():
    """The batches, each sent to the device as it is asked for."""
    for x, y in _batches:
        yield x.to(device), y.to(device)


loader = list(on_device())
torch_xla.sync()


def update(loss):
    """Backward, optimizer step, end of the step."""
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()


exec(compile(PROGRAM, "program.py", "exec"))
