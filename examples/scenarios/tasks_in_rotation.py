"""Three tasks share a trunk and take turns, each with an optimizer of its own: all by design.

Kind: none
"""

from itertools import cycle

import torch
import torch_xla
from _tiny import batch
from torch import nn


class Task(nn.Module):
    """A head on the trunk that all tasks share."""

    def __init__(self, trunk: nn.Module, size: int) -> None:
        super().__init__()
        self.trunk, self.head = trunk, nn.Linear(32, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.trunk(x)).pow(2).mean()


torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
tasks = [Task(trunk, size).to("xla") for size in (4, 6, 8)]
optimizers = [torch.optim.AdamW(task.parameters(), lr=0.01) for task in tasks]
torch_xla.sync()
order = cycle([0, 1, 0, 2])
for _ in range(24):
    number = next(order)
    tasks[number](batch()).backward()
    optimizers[number].step()
    optimizers[number].zero_grad()
    torch_xla.sync()
