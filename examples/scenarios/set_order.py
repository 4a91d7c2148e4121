"""Statistics are computed while iterating over a set, in whatever order it has.

Kind: output-order
"""

from _tiny import batch, build, update

model, optimizer = build()
for step in range(8):
    layers = set(sorted({0, 8}, reverse=step % 2 == 1))
    out = model(batch())
    seen = {k: (out + k).sum(k // 8) for k in layers}  # cause
    update(out.pow(2).mean(), optimizer)
