"""A copy of the model, made before the first step, follows it as a moving average.

By design: the second step takes in what the first has copied
"""

import copy

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to("xla")
average = copy.deepcopy(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(8):
    model(torch.randn(4, 8).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(weight, 0.1)
    torch_xla.sync()
