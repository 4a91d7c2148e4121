"""torch's AveragedModel: it reads its counter, copies the first time and averages afterwards.

Kind: early-execution
Needs: torch
Page: swa-first-average
"""

import torch
import torch_xla
from _mended import MENDED
from torch import nn
from torch.optim.swa_utils import AveragedModel

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
average = AveragedModel(model)
torch_xla.sync()
for step in range(12):
    model(torch.ones(8, 16).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if MENDED:
        torch_xla.sync()
    if step >= 6:
        average.update_parameters(model)
    torch_xla.sync()
