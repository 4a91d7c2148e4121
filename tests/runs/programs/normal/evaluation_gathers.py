"""Loops that begin with a sync, as loaders do; an evaluation gathers its results in another one."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def batches(number):
    for _ in range(number):
        torch_xla.sync()
        yield torch.ones(8, 16).to("xla")


for _ in range(4):
    for x in batches(4):
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch_xla.sync()
    for x in batches(2):
        with torch.no_grad():
            out = model(x)
        torch_xla.sync()
        gathered = torch.cat([out, out]) * 2
        torch_xla.sync()
