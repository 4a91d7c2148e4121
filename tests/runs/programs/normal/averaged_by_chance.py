"""A target network follows the trained one in steps that a coin picks, not in every n-th one."""

import random

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
draw = random.Random(4)
online, target = (nn.Linear(8, 4).to("xla") for _ in range(2))
optimizer = torch.optim.SGD(online.parameters(), lr=0.05)
for _ in range(32):
    x = torch.randn(6, 8).to("xla")
    with torch.no_grad():
        goal = target(x).tanh()
    optimizer.zero_grad()
    (online(x) - goal).pow(2).mean().backward()
    optimizer.step()
    if draw.random() < 0.25:
        with torch.no_grad():
            for mean, p in zip(target.parameters(), online.parameters(), strict=True):
                mean.lerp_(p, 0.3)
    torch_xla.sync()
