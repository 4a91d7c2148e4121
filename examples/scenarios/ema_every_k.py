"""An exponential moving average of the weights is updated on every third step.

Kind: newly-updated
"""

import torch
import torch_xla
from _tiny import batch, build

model, optimizer = build()
average = [p.detach().clone() for p in model.parameters()]
torch_xla.sync()
for step in range(9):
    loss = model(batch()).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 3 == 2:
        with torch.no_grad():
            for mean, p in zip(average, model.parameters(), strict=True):
                mean.mul_(0.9).add_(p, alpha=0.1)  # cause
    torch_xla.sync()
