"""Two validation batches run before training, as trainers do; both end in one helper.

By design: evaluation, training
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def finish(loss):
    torch_xla.sync()
    return loss.detach()


def validate(batches):
    with torch.no_grad():
        return [finish(model(torch.ones(8, 16).to("xla")).pow(2).mean()) for _ in range(batches)]


def train(batches):
    for _ in range(batches):
        loss = model(torch.ones(8, 16).to("xla")).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        finish(loss)


validate(2)
for _ in range(2):
    train(6)
    validate(4)
