"""One weight is in no optimizer, so that nothing zeroes its gradient: it grows from step 1 on.

Kind: accumulated-gradient
Line: none
"""

import torch
import torch_xla
from _tiny import batch, build

model, _ = build()
optimizer = torch.optim.SGD(
    [weight for name, weight in model.named_parameters() if name != "0.weight"], lr=0.05
)
for _ in range(6):
    loss = model(batch()).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
