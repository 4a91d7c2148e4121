"""The data loader hands over one shard in half precision.

Kind: dtype
"""

import torch
from _tiny import build, update

model, optimizer = build()
for step in range(8):
    raw = torch.ones(8, 16, dtype=torch.float16 if step % 4 == 3 else torch.float32)
    x = raw.to("xla")  # cause
    update(model(x.float()).pow(2).mean(), optimizer)
