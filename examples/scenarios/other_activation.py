"""An activation is picked in Python: every fourth step takes another one.

Kind: replaced-subgraph
"""

import torch
from _tiny import batch, build, update

model, optimizer = build()
for step in range(8):
    hidden = model[0](batch())
    hidden = torch.tanh(hidden) if step % 4 == 3 else torch.sigmoid(hidden)  # cause
    update(model[2](hidden).pow(2).mean(), optimizer)
