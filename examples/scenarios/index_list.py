"""A Python list of indices is longer in one step.

Kind: input-shape
"""

from _tiny import batch, build, update

model, optimizer = build()
for step in range(10):
    rows = [0, 3, 5, 7] if step != 6 else [0, 3, 5, 7, 9]
    picked = model(batch(16))[rows]  # cause
    update(picked.pow(2).mean(), optimizer)
