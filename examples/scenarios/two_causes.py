"""An odd last batch and a metric every third step: two causes, sometimes at once.

Kind: input-shape + live-tensor
"""

import torch
from _tiny import build, update

model, optimizer = build()
logged = []
for step in range(10):
    x = torch.ones(5 if step % 4 == 3 else 8, 16).to("xla")  # cause
    out = model(x)
    if step % 3 == 2:
        logged.append(out.std())  # cause
    update(out.pow(2).mean(), optimizer)
