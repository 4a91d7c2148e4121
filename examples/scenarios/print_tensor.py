"""A forgotten ``print`` of an activation on some steps runs half of the forward pass early.

Kind: early-execution
"""

from _tiny import batch, build, update

model, optimizer = build()
for step in range(8):
    hidden = model[1](model[0](batch()))
    if step in (3, 6):
        print(hidden[0, 0])  # cause
    update(model[2](hidden).pow(2).mean(), optimizer)
