"""Activations are checkpointed in some steps only: they are computed a second time there.

The barrier before the second time works in place, so that the batch is updated too.

Kind: rematerialization + newly-updated
Line: torch/nn/modules/linear.py
"""

import torch
from _tiny import batch, build, update
from torch_xla.utils.checkpoint import checkpoint

model, optimizer = build()


def forward(x: torch.Tensor, *, keep: bool) -> torch.Tensor:
    return model(x) if keep else checkpoint(model, x, use_reentrant=True)


for step in range(8):
    update(forward(batch().requires_grad_(), keep=step % 4 != 3).pow(2).mean(), optimizer)
