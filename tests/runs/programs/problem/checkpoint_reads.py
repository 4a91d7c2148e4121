"""Every fourth step copies the weights to the host before it ends: the rest is another graph."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(8):
    model(torch.randn(4, 8).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 3:
        stored = [weight.cpu() for weight in model.parameters()]
    torch_xla.sync()
