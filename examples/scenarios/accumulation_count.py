"""Gradients are accumulated over two batches, but over three every other step.

Kind: accumulation-count
"""

import torch
import torch_xla
from _tiny import build

model, optimizer = build()
for step in range(8):
    for _ in range(3 if step % 2 else 2):
        x = torch.ones(8, 16).to("xla")  # cause
        loss = model(x).pow(2).mean()  # cause
        loss.backward()  # cause
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
