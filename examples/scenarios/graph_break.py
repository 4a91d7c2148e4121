"""A dynamo graph break: a print inside a compiled function cuts its graph in two.

Kind: early-execution
Line: torch
"""

import torch
import torch._dynamo
import torch_xla
from _tiny import batch, build

model, _ = build()
for p in model.parameters():
    p.requires_grad_(False)


def evaluate(x: torch.Tensor, verbose: bool) -> torch.Tensor:
    """The forward pass, with a look at the middle of it."""
    hidden = model[0](x).relu()
    if verbose:
        torch._dynamo.graph_break()  # cause
    return model[2](hidden).sum()


compiled = torch.compile(evaluate, backend="openxla")
for step in range(6):
    compiled(batch(), step >= 3)
    torch_xla.sync()
