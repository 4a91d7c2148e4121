"""Two micro-batches and one update; micro-batches and updates are synced at lines of their own.

By design: micro-batch, accumulate, update
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for _ in range(7):
    for _ in range(2):
        model(torch.ones(8, 16).to("xla")).pow(2).mean().backward()
        torch_xla.sync()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
