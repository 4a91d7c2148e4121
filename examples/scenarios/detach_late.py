"""What scales the hidden values is detached until step 4: then gradients flow through it, too.

Kind: longer-backward
"""

import torch
from _tiny import batch, build, update

model, optimizer = build()
for step in range(8):
    hidden = model[1](model[0](batch()))
    scale = torch.sigmoid(hidden.mean(1, keepdim=True))  # cause
    if step < 4:
        scale = scale.detach()
    update(model[2](hidden * scale).pow(2).mean(), optimizer)
