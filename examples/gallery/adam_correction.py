"""torch's Adam: the correction of the second moment rounds to exactly 1.

Kind: special-scalar
Needs: torch
Page: adam-correction
"""

import os

from _mended import MENDED

if MENDED:
    os.environ["XLA_NO_SPECIAL_SCALARS"] = "1"

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
# With the usual beta of 0.999 it takes some 16,600 steps, with 0.5 about 25.
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.4, 0.5))
for _ in range(40):
    model(torch.ones(8, 16).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
