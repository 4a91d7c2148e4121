"""Clipping asks in Python whether the norm is large: a value read, then one of two graphs.

Kind: clipping
"""

import torch
import torch_xla
from _tiny import batch, build

model, optimizer = build()
for step in range(8):
    loss = model(batch() * (40.0 if step % 4 == 3 else 0.1)).pow(2).mean()
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    if norm > 1.0:  # cause
        for p in model.parameters():
            p.grad.mul_(1.0 / norm)  # cause
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
