"""Some layers of a target network are copied from the trained one: each number of them compiles."""

import random

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
draw = random.Random(2)
online, target = (nn.Sequential(*(nn.Linear(8, 8) for _ in range(4))).to("xla") for _ in range(2))
optimizer = torch.optim.SGD(online.parameters(), lr=0.05)
for _ in range(20):
    x = torch.randn(6, 8).to("xla")
    with torch.no_grad():
        goal = target(x + 1).tanh()
    optimizer.zero_grad()
    (online(x) - goal).pow(2).mean().backward()
    optimizer.step()
    torch_xla.sync()
    for k in range(draw.randrange(5)):
        target[k].load_state_dict(online[k].state_dict())
