"""Batches go into three length buckets, and so does an evaluation; its last batch is smaller."""

import random

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
draw = random.Random(3)


@torch.no_grad()
def evaluate():
    for rows, length in ((6, 32), (6, 12), (6, 8), (5, 8)):
        predicted = model(torch.ones(rows, length, 16).to("xla")).argmax(-1)
        torch_xla.sync()
        predicted.cpu()


for step in range(36):
    length = draw.choice((8, 12, 32))
    model(torch.ones(4, length, 16).to("xla")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
    if step in (20, 30):
        evaluate()
