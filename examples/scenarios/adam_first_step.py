"""Adam's moments are zeros in the first step and inputs from the second one on: warm-up.

Kind: none
"""

import torch
from _tiny import batch, build, update

model, _ = build()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(6):
    update(model(batch()).pow(2).mean(), optimizer)
