"""Each client trains for as many steps as it has batches, and a graph holds all of them."""

import copy

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
shared = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")


def train(batches):
    model = copy.deepcopy(shared)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x.to("xla")), y.to("xla")).backward()
        optimizer.step()
    torch_xla.sync()


torch_xla.sync()
for number in (2, 3, 2, 1, 4, 3, 2, 1, 4):
    train([(torch.rand(8, 16), torch.rand(8, 4)) for _ in range(number)])
