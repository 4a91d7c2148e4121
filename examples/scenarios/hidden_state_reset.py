"""A carried hidden state is set back to zeros inside a step: a constant where there was an input.

Kind: initial-state
"""

import torch
import torch_xla
from _tiny import batch, update
from torch import nn

torch.manual_seed(0)
cell = nn.GRUCell(16, 8).to("xla")
optimizer = torch.optim.SGD(cell.parameters(), lr=0.05)
hidden = torch.zeros(8, 8).to("xla")
torch_xla.sync()
for step in range(12):
    if step >= 4 and step % 3 == 0:
        hidden = torch.zeros(8, 8, device="xla")  # cause
    hidden = cell(batch(), hidden)
    loss = hidden.pow(2).mean()
    hidden = hidden.detach()
    update(loss, optimizer)
