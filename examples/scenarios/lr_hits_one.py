"""A warm-up learning rate reaches exactly 1, which torch_xla lowers as a constant.

Kind: special-scalar
Line: torch/optim/sgd.py
"""

from _tiny import batch, build, update

model, optimizer = build()
for step in range(8):
    for group in optimizer.param_groups:
        group["lr"] = (step + 1) / 4 if step < 4 else 0.5
    update(model(batch()).pow(2).mean(), optimizer)
