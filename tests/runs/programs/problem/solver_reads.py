"""A fixed point is sought until a value that is read in each turn is small enough."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
cell = nn.Linear(8, 8).to("xla")
head = nn.Linear(8, 2).to("xla")
optimizer = torch.optim.SGD(head.parameters(), lr=0.05)
x = torch.randn(4, 8).to("xla")
torch_xla.sync()


def solve(turns):
    z = torch.zeros_like(x)
    with torch.no_grad():
        for _ in range(turns):
            z = torch.tanh(0.3 * cell(z) + x)
            if z.abs().mean().item() < 0:
                break
    return z


for turns in (2, 2, 3, 3, 5, 4, 6, 2, 7):
    head(solve(turns)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
