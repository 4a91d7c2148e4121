"""The barrier is left out after one step, whose work joins that of the next.

Kind: missing-barrier
Line: _tiny
"""

import torch_xla
from _tiny import batch, build

model, optimizer = build(momentum=0.9)
for step in range(10):
    loss = model(batch()).pow(2).mean()  # cause
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step != 5:
        torch_xla.sync()
