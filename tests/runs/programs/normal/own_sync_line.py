"""Two models are trained in one step, and averaged on every fourth by a sync of their own.

By design: training, averaging
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
models = [nn.Linear(8, 4).to("xla") for _ in range(2)]
optimizers = [torch.optim.SGD(model.parameters(), lr=0.05) for model in models]


@torch.no_grad()
def average():
    for weights in zip(*(model.parameters() for model in models), strict=True):
        mean = sum(weights) / len(weights)
        for weight in weights:
            weight.copy_(mean)
    torch_xla.sync()


for step in range(12):
    x = torch.randn(8, 8).to("xla")
    for model, optimizer in zip(models, optimizers, strict=True):
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch_xla.sync()
    if step % 4 == 3:
        average()
