"""A layer is frozen in every other epoch, which has other images, too: both come back."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).to("xla")
head = nn.Conv2d(8, 4, 3).to("xla")
for epoch in range(3):
    body.requires_grad_(epoch % 2 == 1)
    trained = [p for p in (*body.parameters(), *head.parameters()) if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.01)
    for _ in range(9):
        size = 12 if epoch % 2 else 8
        head(body(torch.rand(4, 3, size, size).to("xla"))).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
