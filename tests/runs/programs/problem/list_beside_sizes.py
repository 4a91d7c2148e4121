"""A list of losses grows in each step, and batches have other sizes: both in the same graphs."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
losses = []
for rows in (5, 9, 7, 12, 6, 11):
    loss = model(torch.ones(rows, 16).to("xla")).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.detach())
    mean = torch.stack(losses).mean()
    torch_xla.sync()
