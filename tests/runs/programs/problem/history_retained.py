"""A learned update: its own weights go from step to step with their gradients."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
rate = nn.Parameter(torch.tensor([0.1]).to("xla"))
optimizer = torch.optim.SGD([rate], lr=0.01)
weights = torch.randn(4, 1).to("xla").requires_grad_()
torch_xla.sync()
for _ in range(8):
    x = torch.randn(6, 4).to("xla")
    inner = (x @ weights).pow(2).mean()
    (gradient,) = torch.autograd.grad(inner, [weights], retain_graph=True)
    weights = weights - rate * gradient
    optimizer.zero_grad()
    (torch.randn(6, 4).to("xla") @ weights).pow(2).mean().backward(retain_graph=True)
    optimizer.step()
    torch_xla.sync()
