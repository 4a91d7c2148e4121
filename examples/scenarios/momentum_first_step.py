"""Momentum buffers come into being in the first optimizer step: expected, once.

Kind: none
"""

from _tiny import batch, build, update

model, optimizer = build(momentum=0.9)
for _ in range(6):
    update(model(batch()).pow(2).mean(), optimizer)
