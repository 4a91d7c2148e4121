"""A cache of keys grows with every token.

Kind: growing
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
project = nn.Linear(16, 16).to("xla")
keys = torch.zeros(2, 0, 16).to("xla")
with torch.no_grad():
    for _ in range(8):
        x = torch.ones(2, 1, 16).to("xla")
        keys = torch.cat([keys, project(x)], dim=1)
        scores = torch.softmax(x @ keys.transpose(1, 2), dim=-1)
        torch_xla.sync()
