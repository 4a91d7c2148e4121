"""Two of six layers that are alike change places at step 4.

Kind: output-order
Line: none
"""

import torch
from _tiny import batch, update
from torch import nn

torch.manual_seed(0)
layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(6)).to("xla")
optimizer = torch.optim.SGD(layers.parameters(), lr=0.05)
for step in range(8):
    hidden = batch()
    for k in (0, 1, 2, 3, 4, 5) if step < 4 else (0, 4, 2, 3, 1, 5):  # cause
        hidden = torch.tanh(layers[k](hidden))
    update(hidden.pow(2).mean(), optimizer)
