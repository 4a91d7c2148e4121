"""A reshape that changes nothing is traced in some steps: the same module, another cache key.

Kind: same-graph
Line: none
"""

import torch
import torch_xla
from _tiny import batch, build

model, _ = build()
total = torch.zeros((), device="xla")
torch_xla.sync()


@torch.no_grad()
def evaluate(step: int) -> torch.Tensor:
    out = model(batch())
    return (torch.view_copy(out, (8, 4)) if step % 4 == 3 else out).sum()


for step in range(8):
    total += evaluate(step)
    torch_xla.sync()
