"""The exponent of a loss follows the step: a Python number baked in as a constant.

Kind: constant-value
"""

from _tiny import batch, build, update

model, optimizer = build()
for step in range(7):
    out = model(batch()).sigmoid()
    loss = out.pow(3.0 + step).mean()  # cause
    update(loss, optimizer)
