"""A statistic is updated in place on most steps and replaced on others: other donors.

Kind: donors
"""

import torch
from _tiny import batch, build, update

model, optimizer = build()
seen = torch.zeros(4).to("xla")
for step in range(8):
    out = model(batch())
    old = seen
    if step % 4 == 3:
        seen = seen + out.detach().sum(0)  # cause
    else:
        seen += out.detach().sum(0)  # cause
    update(out.pow(2).mean(), optimizer)
