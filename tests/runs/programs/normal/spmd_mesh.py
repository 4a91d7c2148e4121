"""Under SPMD the parameters come out of the first step with shardings that XLA chose.

By design: warm-up alone
"""

import os

os.environ["CPU_NUM_DEVICES"] = "4"

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch import nn

xr.use_spmd()
mesh = xs.Mesh(np.arange(4), (2, 2), ("data", "model"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
xs.mark_sharding(model[0].weight, mesh, ("model", None))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch_xla.sync()
for _ in range(8):
    x = torch.ones(8, 16).to("xla")
    xs.mark_sharding(x, mesh, ("data", None))
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
