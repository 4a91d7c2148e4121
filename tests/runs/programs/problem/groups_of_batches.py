"""As many micro-batches as a budget takes are accumulated; the loss is a function of its own."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def squared_loss(x, y):
    predicted = model(x)
    return nn.functional.mse_loss(predicted, y)


def accumulate(number):
    total = torch.zeros((), device="xla")
    for _ in range(number):
        x, y = torch.rand(8, 16), torch.rand(8, 4)
        loss = squared_loss(x.to("xla"), y.to("xla"))
        loss.backward()
        total = total + loss.detach()
    return total


for number in (2, 2, 3, 3, 2, 4, 3, 5):
    total = accumulate(number)
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
