"""A second head, whose layer has the name of the first one's, is trained in some steps.

Kind: skipped-block
Line: torch
"""

import torch
from _tiny import batch, update
from torch import nn


class Head(nn.Module):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x)  # cause


torch.manual_seed(0)
body, classes, boxes = nn.Linear(16, 32).to("xla"), Head().to("xla"), Head().to("xla")
parameters = [*body.parameters(), *classes.parameters(), *boxes.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.05)
for step in range(12):
    hidden = torch.relu(body(batch()))
    loss = classes(hidden).pow(2).mean()
    if step in (6, 9):
        loss = loss + boxes(hidden).abs().mean()  # cause
    update(loss, optimizer)
