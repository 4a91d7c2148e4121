"""From the ninth step on torch's own average of the weights, which begins as a copy of them.

By design: the step that copies has a graph of its own, and so have those that move the copy
"""

import torch
import torch_xla
from torch import nn
from torch.optim.swa_utils import AveragedModel

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to("xla")
average = AveragedModel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(24):
    optimizer.zero_grad()
    model(torch.randn(4, 8).to("xla")).pow(2).mean().backward()
    optimizer.step()
    if step >= 8:
        average.update_parameters(model)
    torch_xla.sync()
