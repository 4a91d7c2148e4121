"""The best model so far is deep-copied before the sync: every weight is an output once more.

Kind: live-tensor
Line: torch/optim/sgd.py
"""

import copy

import torch_xla
from _tiny import batch, build

model, optimizer = build()
best = None
for step in range(8):
    loss = model(batch()).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 3:
        best = copy.deepcopy(model.state_dict())
    torch_xla.sync()
