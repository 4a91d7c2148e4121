"""Gradients are clipped by their norm from the seventh step on.

Kind: clipping
Line: torch
"""

import torch
import torch_xla
from _tiny import batch, build

model, optimizer = build()
for step in range(10):
    loss = model(batch()).pow(2).mean()
    loss.backward()
    if step >= 6:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # cause
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
