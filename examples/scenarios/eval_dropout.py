"""Every third step runs the model in eval mode: its dropout is gone.

Kind: random-numbers
Line: torch/nn/functional.py
"""

import torch
from _tiny import batch, update
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.3), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(9):
    model.train(step % 3 != 2)
    update(model(batch()).pow(2).mean(), optimizer)
