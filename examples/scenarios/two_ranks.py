"""Only rank 0 computes the gradient norm that it logs: the ranks trace different graphs.

Kind: live-tensor
Ranks: 2
"""

import os

import torch_xla
import torch_xla.runtime
from _tiny import batch, build

rank = int(os.environ.get("RANK", "0"))
torch_xla.runtime._ORDINAL = rank  # one process for each rank, without a cluster
model, optimizer = build()
for _ in range(5):
    loss = model(batch()).pow(2).mean()
    loss.backward()
    if rank == 0:
        norm = sum(p.grad.square().sum() for p in model.parameters())  # cause
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
