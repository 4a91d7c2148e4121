"""A step closure holds a statistic of the batch on every third step.

Kind: live-tensor
"""

import torch_xla.core.xla_model as xm
from _tiny import batch, build, update

model, optimizer = build()
for step in range(9):
    out = model(batch())
    if step % 3 == 2:
        xm.add_step_closure(print, args=(out.std(),))  # cause
    update(out.pow(2).mean(), optimizer)
