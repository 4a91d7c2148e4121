"""A mask is made inside the step, as long as Python says: its size is baked into the graph.

Kind: python-size
"""

import torch
from _tiny import batch, build, update

model, optimizer = build()
for step in range(8):
    visible = 4 + step // 4
    mask = torch.ones(visible, 4, device="xla")  # cause
    scores = torch.nn.functional.pad(mask, (0, 0, 0, 8 - visible))
    update((model(batch()) * scores).pow(2).mean(), optimizer)
