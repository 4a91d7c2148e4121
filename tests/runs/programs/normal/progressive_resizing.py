"""Images get larger in the second and in the third part of the training."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3)).to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for size, steps in ((8, 14), (12, 14), (16, 16)):
    for _ in range(steps):
        model(torch.ones(4, 3, size, size).to("xla")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
