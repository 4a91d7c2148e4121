"""Fine-tuning in three stages, each by a new SGD: the last trains all, on larger images."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU()).to("xla")
neck = nn.Conv2d(8, 8, 1).to("xla")
head = nn.Linear(8, 4).to("xla")


def forward(size):
    x = neck(body(torch.rand(4, 3, size, size).to("xla")))
    return head(x.mean((2, 3)))


def stage(trained, size, steps):
    for part in (body, neck, head):
        part.requires_grad_(part in trained)
    optimizer = torch.optim.SGD([p for m in trained for p in m.parameters()], 0.1, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        forward(size).pow(2).mean().backward()
        optimizer.step()
        torch_xla.sync()
    for _ in range(3):
        with torch.no_grad():
            forward(size).argmax(1)
            score = forward(size).argmax(1).float().mean()
        torch_xla.sync()
    return score.item()


for plan in (([head], 12, 8), ([head, neck], 12, 8), ([head, neck, body], 16, 10)):
    stage(*plan)
