"""one_hot gets another number of classes in one step.

Kind: python-size + extra-subgraph
"""

import torch
from _tiny import batch, build, update

model, optimizer = build()
labels = torch.zeros(8, dtype=torch.long).to("xla")
for step in range(9):
    classes = 6 if step == 5 else 4
    target = torch.nn.functional.one_hot(labels, classes).float()[:, :4]  # cause
    update((model(batch()) - target).pow(2).mean(), optimizer)
