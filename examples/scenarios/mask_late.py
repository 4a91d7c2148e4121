"""A mask of one's own is multiplied with a weight from the sixth step on.

Kind: added-input
"""

import torch
import torch_xla
from _tiny import batch, build, update

model, optimizer = build()


def forward(x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    weight = model[0].weight
    if mask is not None:
        weight = weight * mask  # cause
    return model[2](torch.relu(torch.nn.functional.linear(x, weight, model[0].bias)))


mask = None
for step in range(10):
    if step == 5:
        mask = (model[0].weight.detach().abs() > 0.1).float()
        torch_xla.sync()
    update(forward(batch(), mask).pow(2).mean(), optimizer)
