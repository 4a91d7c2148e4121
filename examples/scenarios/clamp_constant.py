"""The bound of a clamp follows the step: a Python number baked in as a constant.

Kind: constant-value
"""

from _tiny import batch, build, update

model, optimizer = build()
for step in range(7):
    out = model(batch())
    bounded = out.clamp(max=2.0 + step)  # cause
    update(bounded.pow(2).mean(), optimizer)
