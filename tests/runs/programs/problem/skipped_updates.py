"""A loss scaler skips the update now and then: such a step updates nothing."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(20):
    loss = model(torch.ones(8, 16).to("xla")).pow(2).mean()
    loss.backward()
    if step not in (4, 9, 11):
        optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
