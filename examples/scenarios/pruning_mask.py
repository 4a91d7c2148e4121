"""torch's pruning: from the sixth step on a weight is multiplied by a mask.

Kind: added-input + live-tensor
Line: torch
"""

import torch_xla
from _tiny import batch, build, update
from torch.nn.utils import prune

model, optimizer = build()
for step in range(10):
    if step == 5:
        prune.l1_unstructured(model[0], "weight", amount=0.3)
        torch_xla.sync()
    update(model(batch()).pow(2).mean(), optimizer)
