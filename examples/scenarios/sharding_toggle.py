"""An activation is pinned to another sharding in some steps.

Kind: sharding
Line: torch_xla/distributed/spmd/xla_sharding.py
"""

import os

os.environ["CPU_NUM_DEVICES"] = "4"

import numpy as np
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from _tiny import batch, build, update

xr.use_spmd()
mesh = xs.Mesh(np.arange(4), (2, 2), ("data", "model"))
model, optimizer = build()
for parameter in model.parameters():
    xs.mark_sharding(parameter, mesh, (None,) * parameter.dim())
for step in range(8):
    x = batch()
    hidden = model[1](model[0](x))
    spec = ("data", None) if step % 4 != 3 else (None, "model")
    xs.mark_sharding(hidden, mesh, spec)  # cause
    update(model[2](hidden).pow(2).mean(), optimizer)
