"""Gradients are clipped by value from the seventh step on.

Kind: clipping
Line: torch
"""

import torch
import torch_xla
from _tiny import batch, build

model, optimizer = build(momentum=0.9)
for step in range(10):
    loss = model(batch()).pow(2).mean()
    loss.backward()
    if step >= 6:
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)  # cause
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
