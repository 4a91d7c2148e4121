"""From the fifth step on a copy of the model follows it, with evaluations between.

By design: the later update has the tensors of the earlier one, and those of the copy
"""

import copy

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
average = copy.deepcopy(model).to("xla")
model.to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(24):
    model(torch.randn(4, 8).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step >= 4:
        with torch.no_grad():
            for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)
    torch_xla.sync()
    if step % 4 == 3:
        with torch.no_grad():
            seen = average(torch.ones(2, 8).to("xla")).sum()
            torch_xla.sync()
