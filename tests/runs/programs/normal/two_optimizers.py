"""A generator and a discriminator are trained in turn by one helper with one sync.

By design: two kinds of step
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)).to("xla")
judge = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to("xla")
making = torch.optim.Adam(maker.parameters(), lr=1e-3)
judging = torch.optim.Adam(judge.parameters(), lr=1e-3)


def optimize(loss, optimizer):
    making.zero_grad()
    judging.zero_grad()
    loss.backward()
    optimizer.step()
    torch_xla.sync()


for _ in range(8):
    noise = torch.randn(8, 4).to("xla")
    real = torch.randn(8, 8).to("xla")
    optimize(judge(maker(noise).detach()).mean() - judge(real).mean(), judging)
    optimize(-judge(maker(noise)).mean(), making)
