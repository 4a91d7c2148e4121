"""A coin for each of two layers says whether it runs twice: four graphs, and eight of three."""

import random

import torch
import torch_xla
from torch import nn

random.seed(1)
torch.manual_seed(0)
layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2)).to("xla")
optimizer = torch.optim.Adam(layers.parameters(), lr=1e-3)
for _ in range(24):
    x = torch.rand(4, 8).to("xla")
    for layer in layers:
        x = layer(x).relu()
        if random.random() < 0.5:
            x = layer(x.tanh()).relu()
    x.pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
