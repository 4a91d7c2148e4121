"""torch's RAdam: a Python branch on the step decides whether to divide by the second moment.

Kind: optimizer-option
Needs: torch
Page: radam-rectified
"""

import torch
import torch_xla
from _mended import MENDED
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.RAdam(model.parameters(), lr=1e-3, capturable=MENDED)
for _ in range(12):
    model(torch.ones(8, 16).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
