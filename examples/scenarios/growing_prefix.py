"""A prefix of growing length is cut from a buffer of fixed size: a size born in the graph.

Kind: python-index
"""

import torch
from _tiny import build, update

model, optimizer = build()
buffer = torch.ones(16, 16).to("xla")
for step in range(6):
    prefix = buffer[: 4 + 2 * step]  # cause
    update(model(prefix).pow(2).mean(), optimizer)
