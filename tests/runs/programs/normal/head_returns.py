"""A second head is trained for a stage, left out for one, and comes again: no stage settled."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
body = nn.Linear(8, 8).to("xla")
head, second = (nn.Linear(8, 4).to("xla") for _ in range(2))
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3)
extra = torch.optim.Adam(second.parameters(), lr=1e-3)
for step in range(36):
    h = body(torch.rand(6, 8).to("xla")).relu()
    loss = head(h).pow(2).mean()
    if step // 9 % 2:
        loss = loss + second(h).exp().mean()
    loss.backward()
    for one in (optimizer, extra):
        one.step()
        one.zero_grad()
    torch_xla.sync()
