"""A frozen copy of a network that is trained: one tensor with it until the first update.

Warm-up: from the second step on the two are two
"""

import copy

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 4).to("xla")
teacher = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(12):
    x = torch.randn(6, 8).to("xla")
    with torch.no_grad():
        goal = teacher(x + 1).tanh()
    optimizer.zero_grad()
    (model(x) - goal).pow(2).mean().backward()
    optimizer.step()
    torch_xla.sync()
