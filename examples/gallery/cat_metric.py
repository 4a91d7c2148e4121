"""torchmetrics' CatMetric: compute() in every step concatenates all that was ever kept.

Kind: growing-graph
Needs: torchmetrics
Page: cat-metric
"""

import torch
import torch_xla
from _mended import MENDED
from torch import nn
from torchmetrics import CatMetric, MeanMetric

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
metric = (MeanMetric if MENDED else CatMetric)(nan_strategy="ignore" if MENDED else "disable")
metric.to("xla")
torch_xla.sync()
for _ in range(8):
    loss = model(torch.ones(8, 16).to("xla")).pow(2).mean()
    metric.update(loss.detach())
    average = metric.compute().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
