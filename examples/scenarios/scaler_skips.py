"""A loss scaler skips the optimizer's step once.

Kind: skipped-update
Line: torch
"""

import torch_xla
from _tiny import batch, build

model, optimizer = build(momentum=0.9)
scale = 1024.0
for step in range(10):
    loss = model(batch()).pow(2).mean()
    (loss * scale).backward()
    if step != 6:  # no overflow
        for p in model.parameters():
            p.grad.div_(scale)
        optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
