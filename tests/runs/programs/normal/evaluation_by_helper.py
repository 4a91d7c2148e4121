"""Training and evaluation end their steps in one helper, called from two loops.

By design: training, evaluation
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def run(x, *, training):
    loss = model(x).pow(2).mean()
    if training:
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch_xla.sync()
    return loss.detach()


for _ in range(3):
    for _ in range(5):
        run(torch.ones(8, 16).to("xla"), training=True)
    with torch.no_grad():
        for _ in range(2):
            run(torch.ones(8, 16).to("xla"), training=False)
