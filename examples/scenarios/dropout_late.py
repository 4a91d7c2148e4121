"""Dropout is switched off in mid-training by eval().

Kind: random-numbers
Line: torch
"""

import torch
from _tiny import batch, update
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(10):
    if step == 5:
        model.eval()
    update(model(batch()).pow(2).mean(), optimizer)
