"""Adapters are trained stage by stage, and then those that Python draws, several at a time."""

import random

import torch
import torch_xla
from torch import nn

random.seed(0)
torch.manual_seed(0)
body = nn.Linear(8, 8).to("xla").requires_grad_(False)
adapters = nn.ModuleList(
    nn.Sequential(nn.Linear(8, rank), nn.Linear(rank, 8)) for rank in (2, 3, 4)
).to("xla")
optimizer = torch.optim.SGD(adapters.parameters(), lr=0.05)
for step in range(36):
    drawn = [adapters[step // 8]] if step < 24 else random.sample(list(adapters), 2)
    x = torch.rand(6, 8).to("xla")
    y = body(x)
    for adapter in drawn:
        y = y + adapter(x)
    y.tanh().pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
