"""Gradients are accumulated over four batches instead of two in one step.

Kind: accumulation-count
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Tanh(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(9):
    optimizer.zero_grad()
    for _ in range(4 if step == 6 else 2):
        x = torch.randn(8, 16).to("xla")  # cause
        model(x).square().mean().backward()  # cause
    optimizer.step()
    torch_xla.sync()
