"""The outputs of two layers of one size are joined in the other order once.

Kind: reordered-operands
"""

import torch
from _tiny import batch, update
from torch import nn

torch.manual_seed(0)
left, right = nn.Linear(16, 8).to("xla"), nn.Linear(16, 8).to("xla")
head = nn.Linear(16, 4).to("xla")
parameters = [*left.parameters(), *right.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.05)
for step in range(10):
    x = batch()
    parts = [left(x), right(x)]
    joined = torch.cat(parts[::-1] if step == 6 else parts, 1)  # cause
    update(head(joined).pow(2).mean(), optimizer)
