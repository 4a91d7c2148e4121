"""Every third step one layer more is used: each stays for a while, and five changes are many."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6)).to("xla")
optimizer = torch.optim.SGD(layers.parameters(), lr=0.05)
for step in range(18):
    x = torch.ones(4, 8).to("xla")
    for layer in layers[: 1 + step // 3]:
        x = layer(x).relu()
    x.pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
