"""A monitor attaches its hooks at the begin of each epoch, and never takes them away.

Kind: repeated-hook
"""

import torch
from _tiny import batch, build, update
from torch import nn

model, optimizer = build()
activity: list[torch.Tensor] = []


def record(_module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
    """Keeps what is to be logged."""
    activity.append(output.detach().abs().mean())  # cause


for step in range(12):
    if step % 3 == 0:
        model[0].register_forward_hook(record)  # cause
        model[1].register_forward_hook(record)
    loss = model(batch()).pow(2).mean()
    logged = sum(activity) / len(activity)
    activity.clear()
    update(loss, optimizer)
