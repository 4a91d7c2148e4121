"""On every third step the accuracy is computed and kept: one more output.

Kind: live-tensor
"""

from _tiny import batch, build, update

model, optimizer = build()
logged = []
for step in range(9):
    out = model(batch())
    if step % 3 == 2:
        logged.append((out.argmax(1) == 0).float().mean())  # cause
    update(out.pow(2).mean(), optimizer)
