"""Clouds of different sizes, and a list of losses that is one longer in each step.

Kind: input-shape + growing-graph + python-size
"""

import torch
from _tiny import update
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
losses = []
for points in (9, 7, 12, 8, 7, 7, 10, 9):
    cloud = torch.ones(2, points, 3).to("xla")  # cause
    loss = model(cloud).amax(1).pow(2).mean()
    losses.append(loss.detach())
    smooth = torch.stack(losses).mean()  # cause
    update(loss, optimizer)
