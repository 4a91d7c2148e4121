"""A view that changes nothing is traced in some steps; a transposed weight is no longer shared.

Kind: repeated-expression
Line: none
"""

import torch
from _tiny import batch, build, update

model, optimizer = build()


def forward(x: torch.Tensor, *, view: bool) -> torch.Tensor:
    hidden = model[1](model[0](x))
    return model[2](hidden.view(8, 32) if view else hidden)


for step in range(8):
    update(forward(batch(), view=step % 4 == 3).pow(2).mean(), optimizer)
