"""A target network follows the trained one in every fourth step, the first one the fourth.

By design: with and without the average
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
online, target = (nn.Linear(8, 4).to("xla") for _ in range(2))
optimizer = torch.optim.SGD(online.parameters(), lr=0.05)
for step in range(32):
    x = torch.randn(6, 8).to("xla")
    with torch.no_grad():
        goal = target(x).tanh()
    optimizer.zero_grad()
    (online(x) - goal).pow(2).mean().backward()
    optimizer.step()
    if step % 4 == 3:
        with torch.no_grad():
            for mean, p in zip(target.parameters(), online.parameters(), strict=True):
                mean.lerp_(p, 0.3)
    torch_xla.sync()
