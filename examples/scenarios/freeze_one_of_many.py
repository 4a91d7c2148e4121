"""One of eight layers that are alike is frozen at step 4.

Kind: newly-updated
Line: torch
"""

import torch
from _tiny import batch, update
from torch import nn

torch.manual_seed(0)
layers = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(8))).to("xla")
optimizer = torch.optim.SGD(layers.parameters(), lr=0.05)
for step in range(8):
    if step == 4:
        layers[3].requires_grad_(False)  # cause
    update(layers(batch()).pow(2).mean(), optimizer)
