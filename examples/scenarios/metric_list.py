"""A metric keeps every loss in a list and averages them in every step.

Kind: growing-graph
"""

import torch
from _tiny import batch, build, update


class Metric:
    """The mean of all that was ever added."""

    def __init__(self) -> None:
        self.values: list[torch.Tensor] = []

    def mean(self) -> torch.Tensor:
        return torch.stack(self.values).mean()  # cause


model, optimizer = build()
metric = Metric()
for _ in range(8):
    loss = model(batch()).pow(2).mean()
    metric.values.append(loss.detach())
    average = metric.mean()
    update(loss, optimizer)
