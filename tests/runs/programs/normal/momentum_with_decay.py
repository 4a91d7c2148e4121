"""Momentum and weight decay: the momentum's first value is computed from the weights.

Warm-up: the weights are no less inputs of the first step, whatever their number of dimensions
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)).to("xla")
optimizer = torch.optim.SGD(
    model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4
)
for _ in range(8):
    optimizer.zero_grad()
    model(torch.randn(6, 8).to("xla")).pow(2).mean().backward()
    optimizer.step()
    torch_xla.sync()
