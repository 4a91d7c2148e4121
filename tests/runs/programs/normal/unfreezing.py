"""First the head is trained, from step 5 on the body too, each time by an Adam of its own.

By design: two phases
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(8, 16), nn.ReLU()).to("xla").requires_grad_(False)
head = nn.Linear(16, 4).to("xla")
optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
for step in range(12):
    if step == 5:
        body.requires_grad_(True)
        optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3)
    head(body(torch.randn(4, 8).to("xla"))).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
