"""Every third step has a penalty more, the first one too: all graphs run in the first two steps.

By design: with and without the penalty
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(12):
    x = torch.randn(4, 8).to("xla")
    loss = model(x).pow(2).mean()
    if step % 3 == 0:
        loss = loss + sum(weight.abs().sum() for weight in model.parameters())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
