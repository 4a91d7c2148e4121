"""Batches of two sizes in turn, and every fifth update moves slow weights: four graphs.

By design: each of two sizes, with and without slow weights. What the backward pass has kept is
still alive as a step ends, so Python sees a part of what each graph gives back.
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
slow = [p.detach().clone() for p in model.parameters()]
torch_xla.sync()
for step in range(36):
    x = torch.randn((6, 10)[step % 2], 8)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x.to("xla")), torch.zeros(len(x)).long().to("xla"))
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        with torch.no_grad():
            for mean, p in zip(slow, model.parameters(), strict=True):
                mean.add_(p - mean, alpha=0.4)
                p.mul_(0).add_(mean)
    torch_xla.sync()
