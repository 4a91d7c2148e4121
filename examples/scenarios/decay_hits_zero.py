"""The weight of an auxiliary loss decays to exactly 0, a constant for torch_xla.

Kind: special-scalar
"""

from _tiny import batch, build, update

model, optimizer = build()
for step in range(8):
    out = model(batch())
    weight = max(0.0, 0.6 - 0.2 * step)
    update(out.pow(2).mean() + out.abs().mean() * weight, optimizer)  # cause
