"""From the ninth step on the mean of all copies so far is made, at a sync line of its own."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
model.to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.5, 0.99))
copies, means = [], []


@torch.no_grad()
def average():
    copies.append([weight.clone() for weight in model.parameters()])
    means[:] = [sum(same) for same in zip(*copies, strict=True)]
    torch_xla.sync()


for step in range(14):
    model(torch.randn(4, 8).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
    if step >= 8:
        average()
