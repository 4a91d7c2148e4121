"""Every fourth step the weights are copied to the host between ``step()`` and the sync.

Kind: early-execution
"""

import torch_xla
from _tiny import batch, build

model, optimizer = build()
for step in range(8):
    model(batch()).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 3:
        saved = {name: value.cpu() for name, value in model.state_dict().items()}  # cause
    torch_xla.sync()
