"""A list of losses is summed in every step: one more input and one more addition each time.

Kind: growing-graph
"""

from _tiny import batch, build, update

model, optimizer = build()
history = []
for _ in range(8):
    loss = model(batch()).pow(2).mean()
    history.append(loss.detach())
    total = sum(history)  # cause
    update(loss, optimizer)
