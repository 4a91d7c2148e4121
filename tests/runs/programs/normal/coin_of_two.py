"""Self-conditioning: a coin of Python has a first pass come before the trained one, or not."""

import random

import torch
import torch_xla
from torch import nn

random.seed(8)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(24):
    x = torch.rand(4, 8).to("xla")
    before = torch.zeros_like(x)
    if random.random() < 0.5:
        with torch.no_grad():
            before = model(torch.cat([x, before], 1)).tanh()
    (model(torch.cat([x, before], 1)) - x).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
