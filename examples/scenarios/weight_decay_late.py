"""SGD's weight decay is switched on in mid-training.

Kind: optimizer-option
Line: torch
"""

from _tiny import batch, build, update

model, optimizer = build()
for step in range(10):
    if step == 5:
        optimizer.param_groups[0]["weight_decay"] = 1e-2
    update(model(batch()).pow(2).mean(), optimizer)
