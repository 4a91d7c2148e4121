"""Label smoothing is switched on in mid-training.

Kind: call-option
Line: torch
"""

import torch
from _tiny import batch, build, update

model, optimizer = build()
labels = torch.zeros(8, dtype=torch.long).to("xla")
for step in range(10):
    smoothing = 0.1 if step >= 5 else 0.0
    out = model(batch())
    loss = torch.nn.functional.cross_entropy(out, labels, label_smoothing=smoothing)  # cause
    update(loss, optimizer)
