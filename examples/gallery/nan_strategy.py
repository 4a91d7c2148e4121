"""torchmetrics' MeanMetric: looking for NaN reads a value in every step.

Kind: early-execution
Needs: torchmetrics
Page: nan-strategy
"""

import torch
import torch_xla
from _mended import MENDED
from torch import nn
from torchmetrics import MeanMetric

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
metric = MeanMetric(nan_strategy="disable" if MENDED else "warn").to("xla")
for _ in range(8):
    loss = model(torch.ones(8, 16).to("xla")).pow(2).mean()
    metric.update(loss.detach())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
