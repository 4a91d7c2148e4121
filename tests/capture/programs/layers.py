"""Trains a model of four like blocks for many steps; the last ones take others of them.

python layers.py WHICH LATER, such as 0123 123
"""

import sys

import torch
import torch_xla
from torch import nn


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.up = nn.Linear(size, size)

    def forward(self, x):
        return x + torch.relu(self.up(self.norm(x)))


class Net(nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.embed = nn.Linear(4, size)
        self.blocks = nn.ModuleList(Block(size) for _ in range(4))
        self.head = nn.Linear(size, 3)

    def forward(self, x, which):
        x = self.embed(x)
        for k in which:
            x = self.blocks[int(k)](x)
        return self.head(x)


torch.manual_seed(0)
net = Net().to("xla")
optimizer = torch.optim.AdamW(net.parameters())
x, y = torch.randn(6, 4).to("xla"), torch.randint(0, 3, (6,)).to("xla")
torch_xla.sync()
for step in range(14):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x, sys.argv[1 if step < 12 else 2]), y).backward()
    optimizer.step()
    torch_xla.sync()
