"""Autocast is on for some steps only: the same graph in another dtype.

Kind: dtype
Line: torch/nn/modules/linear.py
"""

import torch
from _tiny import batch, build, update

model, optimizer = build()
for step in range(8):
    with torch.autocast("xla", dtype=torch.bfloat16, enabled=step % 4 != 3):
        out = model(batch())
    update(out.float().pow(2).mean(), optimizer)
