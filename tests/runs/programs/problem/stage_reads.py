"""The second stage reads its loss in each step, before the sync that the first stage had alone."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def train(steps, *, verbose):
    for _ in range(steps):
        loss = model(torch.randn(8, 16).to("xla")).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        if verbose:
            print(loss.item())
        optimizer.step()
        torch_xla.sync()


train(8, verbose=False)
train(8, verbose=True)
