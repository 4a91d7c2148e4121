"""A penalty comes for four steps, goes, and comes again: no phase, for nothing stays."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(14):
    loss = model(torch.ones(8, 16).to("xla")).pow(2).mean()
    if step in (4, 5, 6, 7, 11):
        loss = loss + model[0].weight.abs().sum().exp().log()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
