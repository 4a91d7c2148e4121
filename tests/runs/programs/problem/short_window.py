"""The last window of each pass over a text is shorter than the others."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(3):
    for length in (*[12] * 13, 5):
        model(torch.ones(4, length, 16).to("xla")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
