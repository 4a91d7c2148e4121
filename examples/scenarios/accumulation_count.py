"""Gradients are accumulated over two batches, but over three every other step.

Kind: extra-subgraph
"""

import torch_xla
from _tiny import batch, build

model, optimizer = build()
for step in range(8):
    for _ in range(3 if step % 2 else 2):
        loss = model(batch()).pow(2).mean()  # cause
        loss.backward()  # cause
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
