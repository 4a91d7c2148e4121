"""Nothing is wrong: one graph for setting up, one for all steps.

Kind: none
"""

from _tiny import batch, build, update

model, optimizer = build()
for _ in range(6):
    update(model(batch()).pow(2).mean(), optimizer)
