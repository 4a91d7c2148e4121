"""Under SPMD the second step compiles again: its inputs now have the shardings XLA gave them.

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
mesh = xs.Mesh(np.arange(4), (4, 1), ("data", "model"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(8):
    x = torch.ones(8, 16).to("xla")
    xs.mark_sharding(x, mesh, ("data", None))
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
