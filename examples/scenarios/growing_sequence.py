"""A transformer sees one token more in every step.

Kind: input-shape
"""

import torch
from _tiny import update
from torch import nn

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).to("xla")
optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
for step in range(6):
    tokens = torch.ones(2, 5 + step, 16).to("xla")  # cause
    update(layer(tokens).pow(2).mean(), optimizer)
