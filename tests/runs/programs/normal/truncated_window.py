"""A recurrent net learns from windows of three steps, each with a sync: the first one differs.

By design: forward, learning
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
cell = nn.GRUCell(4, 8).to("xla")
optimizer = torch.optim.SGD(cell.parameters(), lr=0.05)
hidden = torch.zeros(2, 8, device="xla")
for _ in range(5):
    loss = 0.0
    for _ in range(3):
        hidden = cell(torch.randn(2, 4).to("xla"), hidden)
        loss = loss + hidden.pow(2).mean()
        torch_xla.sync()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    hidden = hidden.detach()
    torch_xla.sync()
