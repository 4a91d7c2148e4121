"""A metric joins the scores of a step with all those before: the first step has none to join.

Kind: growing-input + added-input + live-tensor
"""

import torch
import torch_xla
from _tiny import build

model, _ = build()
torch_xla.sync()
scores = None
with torch.no_grad():
    for step in range(7):
        out = model(torch.full((4, 16), float(step)).to("xla")).mean(1)
        scores = out if scores is None else torch.cat([scores, out])  # cause
        spread = (scores[:, None] - scores[None, :]).abs().mean()
        torch_xla.sync()
