"""A running average of a weight that is never detached; one that nothing uses does no harm."""

import torch
import torch_xla
from torch import nn


class Balance(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(3))
        self.register_buffer("report", torch.zeros(3))
        self.register_buffer("average", torch.zeros(3))

    def forward(self, losses):
        self.report = torch.lerp(self.report, self.scale.detach(), 0.1)
        self.average = torch.lerp(self.average, self.scale, 0.1)
        return (torch.exp(-self.average) * losses + self.average).sum()


torch.manual_seed(0)
model, balance = nn.Linear(8, 1).to("xla"), Balance().to("xla")
parameters = [*model.parameters(), *balance.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
torch_xla.sync()
for _ in range(9):
    y = model(torch.randn(4, 8).to("xla"))
    optimizer.zero_grad()
    loss = balance(torch.stack([(y - k).square().mean() for k in range(3)]))
    loss.backward()
    optimizer.step()
    torch_xla.sync()
