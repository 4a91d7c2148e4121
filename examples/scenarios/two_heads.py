"""Two tasks take turns on one trunk, each with a head of its own: two graphs at one sync.

Kind: none
"""

import torch
from _tiny import batch, update
from torch import nn

torch.manual_seed(0)
trunk = nn.Linear(16, 32).to("xla")
heads = nn.ModuleList([nn.Linear(32, 4), nn.Linear(32, 7)]).to("xla")
optimizer = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.05)
for step in range(12):
    update(heads[step % 2](torch.relu(trunk(batch()))).pow(2).mean(), optimizer)
