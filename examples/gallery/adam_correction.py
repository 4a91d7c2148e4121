"""torch's Adam: the correction of the second moment rounds to exactly 1.

Kind: special-scalar
Needs: torch
Page: adam-correction
"""

import torch
import torch_xla
from _mended import MENDED
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
# With the usual beta of 0.999 it takes some 16,600 steps, with 0.5 about 25.
rate = torch.tensor(1e-3).to("xla") if MENDED else 1e-3
optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.4, 0.5), capturable=MENDED)
for _ in range(40):
    model(torch.ones(8, 16).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
