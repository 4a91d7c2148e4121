"""The first layer is unfrozen in step 4: more gradients, more updates.

Kind: newly-updated
Line: torch/optim/sgd.py
"""

from _tiny import batch, build, update

model, optimizer = build()
model[0].requires_grad_(False)
for step in range(8):
    if step == 4:
        model[0].requires_grad_(True)
    update(model(batch()).pow(2).mean(), optimizer)
