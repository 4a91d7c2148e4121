"""Training is stable until an exception ends it."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Linear(16, 4).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(8):
    model(torch.ones(8, 16).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
    if step == 5:
        raise RuntimeError("the loader has died")
