"""The batch is doubled in step 6 and stays so: a size, which can be had without a compile."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(14):
    model(torch.ones(8 if step < 6 else 16, 16).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
