"""Epochs end with odd batches of three sizes, in rotation."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(9):
    for rows in (8, 8, 8, 3 + epoch % 3):
        model(torch.ones(rows, 16).to("xla")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
