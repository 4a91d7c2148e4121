"""The first step of each epoch keeps what the model gave: that is a training's own graph."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def evaluate():
    for _ in range(4):
        with torch.no_grad():
            y = model(torch.rand(6, 8).to("xla")).pow(2)
        torch_xla.sync()
        y.mean().item()


for _ in range(4):
    for step in range(6):
        y = model(torch.rand(4, 8).to("xla"))
        optimizer.zero_grad()
        y.pow(2).mean().backward()
        optimizer.step()
        kept = y.detach().exp() if step == 0 else None
        torch_xla.sync()
    evaluate()
