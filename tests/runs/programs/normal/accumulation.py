"""Gradients of four micro-batches are summed up before each update; every micro-batch is synced.

By design: micro-batch, accumulate, update
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(20):
    loss = model(torch.ones(8, 16).to("xla")).pow(2).mean() / 4
    loss.backward()
    if step % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
    torch_xla.sync()
