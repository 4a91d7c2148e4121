"""Every fourth step reads the loss with ``.item()`` before backward: the graph is cut there.

Kind: early-execution
"""

from _tiny import batch, build, update

model, optimizer = build()
for step in range(9):
    loss = model(batch()).pow(2).mean()
    if step % 4 == 3:
        print(loss.item())  # cause
    update(loss, optimizer)
