"""Two epochs that read the loss in each batch and sync at their end alone."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 1).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
torch_xla.sync()
total = 0.0
for _ in range(2):
    for _ in range(6):
        loss = model(torch.randn(4, 5).to("xla")).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    torch_xla.sync()
