"""Gradients of four micro-batches are summed up before each update, and every one is synced.

Micro-batch, accumulate and update have a graph each; AdamW's state comes with the second update.

Kind: none
"""

import torch
import torch_xla
from _tiny import batch, build

model, _ = build()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(16):
    loss = model(batch()).pow(2).mean() / 4
    loss.backward()
    if step % 4 == 3:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    torch_xla.sync()
