"""Accumulation by two, and the loss of every update is kept and summed: update steps grow."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
losses = []
for step in range(16):
    loss = model(torch.ones(8, 16).to("xla")).pow(2).mean() / 2
    loss.backward()
    if step % 2:
        losses.append(loss.detach())
        mean = torch.stack(losses).mean()
        optimizer.step()
        optimizer.zero_grad()
    torch_xla.sync()
