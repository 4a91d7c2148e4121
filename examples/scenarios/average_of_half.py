"""The decay of an average is 0.5 in one step, and so equals 1 - decay.

Kind: shared-scalar
"""

import torch
import torch_xla
from _tiny import batch, build

model, optimizer = build()
averages = [p.detach().clone() for p in model.parameters()]
torch_xla.sync()
for step in range(10):
    model(batch()).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    decay = 0.5 if step == 5 else 0.9
    with torch.no_grad():
        for average, p in zip(averages, model.parameters(), strict=True):
            average.mul_(decay).add_(p * (1 - decay))  # cause
    torch_xla.sync()
