"""More layers are trained in each of four stages, each by an SGD with momentum of its own.

By design: four stages, each with a first step of its own, and an evaluation behind each
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
layers = [nn.Linear(8, 8).to("xla") for _ in range(4)]
model = nn.Sequential(*layers)
torch_xla.sync()


def train(optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 8).to("xla")).pow(2).mean().backward()
        optimizer.step()
        torch_xla.sync()


@torch.no_grad()
def accuracy():
    return float(model(torch.randn(4, 8).to("xla")).argmax(-1).cpu().float().mean())


for stage in range(4):
    for depth, layer in enumerate(reversed(layers)):
        layer.requires_grad_(depth <= stage)
        layer.zero_grad()
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.05, momentum=0.9, weight_decay=1e-4)
    train(optimizer, steps=10)
    print(stage, accuracy())
