"""Adapters of several tenants: those without data in a batch get no update.

Kind: changing-updates
Line: torch/optim
"""

import random

import torch
import torch_xla
from _tiny import batch
from torch import nn


class Model(nn.Module):
    """One layer, with a shift for each tenant."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(16, 16).requires_grad_(False)
        self.adapters = nn.ParameterList([torch.zeros(16) for _ in range(4)])

    def forward(self, x: torch.Tensor, who: torch.Tensor) -> torch.Tensor:
        shifts = torch.stack(list(self.adapters))
        return torch.tanh(self.base(x) + who @ shifts)


random.seed(1)
torch.manual_seed(0)
model = Model().to("xla")
optimizer = torch.optim.AdamW(model.adapters, lr=0.01)
for _ in range(10):
    present = sorted(random.sample(range(4), k=random.randint(1, 3)))
    who = torch.zeros(8, 4)
    for row in range(8):
        who[row, random.choice(present)] = 1.0
    model(batch(), who.to("xla")).pow(2).mean().backward()
    for tenant, adapter in enumerate(model.adapters):
        if tenant not in present:
            adapter.grad = None
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
