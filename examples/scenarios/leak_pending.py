"""Metrics are computed for every past batch again, and all of them kept: outputs grow.

Kind: growing-graph
"""

from _tiny import batch, build, update

model, optimizer = build()
kept = []
for _ in range(7):
    out = model(batch())
    kept.append(out.detach())
    norms = [one.square().sum() for one in kept]  # cause
    update(out.pow(2).mean(), optimizer)
