"""A target network is copied from the trained one before the first step and in every fourth.

By design: until the next update both have one buffer, and the step behind a copy has one input for
them
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
online, target = (nn.Linear(8, 4).to("xla") for _ in range(2))
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(online.parameters(), lr=0.01)
for step in range(20):
    x = torch.randn(6, 8).to("xla")
    with torch.no_grad():
        goal = target(x + 1).tanh()
    optimizer.zero_grad()
    (online(x) - goal).pow(2).mean().backward()
    optimizer.step()
    torch_xla.sync()
    if step % 4 == 0:
        target.load_state_dict(online.state_dict())
