"""Momentum is switched on in step 5: optimizer state appears long after warm-up.

Kind: optimizer-state
Line: torch/optim/sgd.py
"""

from _tiny import batch, build, update

model, optimizer = build()
for step in range(9):
    if step == 5:
        optimizer.param_groups[0]["momentum"] = 0.9
    update(model(batch()).pow(2).mean(), optimizer)
