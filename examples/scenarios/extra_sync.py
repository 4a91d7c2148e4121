"""From step 4 on a second sync stands between the forward pass and backward.

Kind: early-execution + live-tensor
Line: torch
"""

import torch_xla
from _tiny import batch, build, update

model, optimizer = build()
for step in range(8):
    loss = model(batch()).pow(2).mean()
    if step >= 4:
        torch_xla.sync()  # cause
    update(loss, optimizer)
