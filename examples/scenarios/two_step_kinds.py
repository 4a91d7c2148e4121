"""A generator and a discriminator take turns: two steps, each with a graph of its own.

Kind: none
"""

import torch
import torch_xla
from _tiny import batch, build, update
from torch import nn

judge, judging = build()
maker = nn.Sequential(nn.Linear(16, 16), nn.Tanh()).to("xla")
making = torch.optim.SGD(maker.parameters(), lr=0.05)
for _ in range(6):
    update(judge(maker(batch()).detach()).mean() - judge(batch()).mean(), judging)
    judge(maker(batch())).mean().backward()
    making.step()
    making.zero_grad()
    judging.zero_grad()
    torch_xla.sync()
