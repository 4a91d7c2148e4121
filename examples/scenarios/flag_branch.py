"""From step 4 on a penalty is added to the loss: control flow took another branch.

Kind: extra-subgraph
"""

from _tiny import batch, build, update

model, optimizer = build()
for step in range(8):
    out = model(batch())
    loss = out.pow(2).mean()
    if step >= 4:
        loss = loss + out.exp().sum().log()  # cause
    update(loss, optimizer)
