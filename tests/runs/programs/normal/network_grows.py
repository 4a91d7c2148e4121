"""A network that is grown: new layers at twice the size, and an optimizer for all of it."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
layers = nn.ModuleList([nn.Conv1d(2, 8, 3, padding=1)]).to("xla")
head = nn.Linear(8, 4).to("xla")
for stage in range(2):
    if stage:
        layers.append(nn.Conv1d(2, 8, 3, padding=1).to("xla"))
        layers.append(nn.Conv1d(8, 8, 3, padding=1).to("xla"))
    optimizer = torch.optim.Adam([*layers.parameters(), *head.parameters()], lr=1e-3)
    torch_xla.sync()
    for _ in range(9):
        x = torch.rand(4, 2, 8 * (stage + 1)).to("xla")
        h = layers[0](nn.functional.avg_pool1d(x, 2) if stage else x).relu()
        if stage:
            new = layers[2](layers[1](x).relu()).relu()
            h = torch.lerp(h, nn.functional.avg_pool1d(new, 2), 0.5)
        head(h.mean(2)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
