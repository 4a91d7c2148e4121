"""Statistics are computed while iterating over a set, in whatever order it has.

Kind: output-order
"""

from _tiny import batch, build, update

model, optimizer = build()
for step in range(8):
    layers = set()
    layers.update((8, 0) if step % 2 else (0, 8))  # both fall into one slot: first come
    out = model(batch())
    seen = {k: (out + k).sum(k // 8) for k in layers}  # cause
    update(out.pow(2).mean(), optimizer)
