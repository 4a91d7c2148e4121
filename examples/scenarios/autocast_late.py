"""Autocast begins in step 4 of a deeper model: hardly an instruction keeps its type.

Kind: dtype
Line: torch
"""

import torch
from _tiny import batch, update
from torch import nn

torch.manual_seed(0)
layers = [layer for _ in range(4) for layer in (nn.Linear(16, 16), nn.Tanh())]
model = nn.Sequential(*layers).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(8):
    with torch.autocast("xla", dtype=torch.bfloat16, enabled=step >= 4):
        out = model(batch())
    update(out.float().pow(2).mean(), optimizer)
