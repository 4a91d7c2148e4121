"""Every third batch is smaller, from the first step on, in a model whose optimizer has state.

Two steps of three have the other size: an epoch of three batches with an odd one looks like that.
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(14):
    model(torch.ones(8 if step % 3 else 5, 16).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
