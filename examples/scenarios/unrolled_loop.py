"""A recurrent cell is unrolled a random number of times: nothing is kept, earlier lengths return.

Kind: extra-subgraph
Line: torch
"""

import random

import torch
from _tiny import batch, update
from torch import nn

random.seed(1)
torch.manual_seed(0)
cell = nn.RNNCell(16, 16).to("xla")
optimizer = torch.optim.SGD(cell.parameters(), lr=0.05)
for _ in range(10):
    x, hidden = batch(), torch.zeros(8, 16).to("xla")
    for _ in range(random.randint(2, 5)):
        hidden = cell(x, hidden)
    update(hidden.pow(2).mean(), optimizer)
