"""LayerDrop: a random number on the host decides which blocks of the model run.

Kind: skipped-block
"""

import random

import torch
import torch_xla
from _tiny import batch
from torch import nn


class Block(nn.Module):
    """A residual branch."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))  # cause


class Model(nn.Module):
    """Some of whose blocks are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Block() for _ in range(3)]), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            if random.random() > 0.4:
                x = block(x)  # cause
        return self.head(x)


random.seed(1)
torch.manual_seed(0)
model = Model().to("xla")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(10):
    model(batch()).pow(2).mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
