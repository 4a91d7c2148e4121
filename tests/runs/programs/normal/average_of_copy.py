"""From the ninth step on a copy of the model follows it, at a sync line of its own.

By design: the copy has the names of the model, and its update is a part of what training computes.
"""

import copy

import torch
import torch_xla
from torch import nn


class Net(nn.Sequential):
    """The copy is one, too."""


class Head(nn.Sequential):
    """Its name tells the parameters of the two apart."""


class Training:
    """Has both, and trains the model."""

    def __init__(self):
        self.model = Net(nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)).to("xla")
        self.head, self.averaged = Head(nn.Linear(4, 2)).to("xla"), None
        self.head.requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2, betas=(0.5, 0.99))

    def step(self):
        self.head(self.model(torch.randn(4, 8).to("xla"))).pow(2).mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        torch_xla.sync()

    @torch.no_grad()
    def average(self):
        if self.averaged is None:
            self.averaged = copy.deepcopy(self.model)
        else:
            pairs = zip(self.averaged.parameters(), self.model.parameters(), strict=True)
            for mean, weight in pairs:
                mean.lerp_(weight, 0.1)
        torch_xla.sync()


def main():
    torch.manual_seed(0)
    training = Training()
    for step in range(24):
        training.step()
        if step >= 8:
            training.average()


main()
