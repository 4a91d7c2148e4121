"""Each epoch trains a layer more, on larger images, with a new optimizer: without an end."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
layers = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1) for _ in range(6)).to("xla")
for epoch in range(6):
    for k, layer in enumerate(layers):
        layer.requires_grad_(k >= 5 - epoch)
    trained = [p for p in layers.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.01, momentum=0.9)
    for _ in range(8):
        x = torch.rand(4, 3, 8 + 2 * epoch, 8 + 2 * epoch).to("xla")
        for layer in layers:
            x = layer(x).tanh()
        x.pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
