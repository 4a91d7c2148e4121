"""Stochastic depth in Python: a block that no step took part in so far has no momentum yet."""

import random

import torch
import torch_xla
from torch import nn

random.seed(3)
torch.manual_seed(0)
blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(2)).to("xla")
head = nn.Linear(16, 4).to("xla")
optimizer = torch.optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
for _ in range(20):
    x = torch.ones(8, 16).to("xla")
    for block in blocks:
        if random.random() < 0.6:
            x = x + torch.relu(block(x))
    head(x).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
