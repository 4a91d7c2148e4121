"""A state that goes from step to step with its gradients: the backward pass gets longer."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
cell = nn.Linear(12, 8).to("xla")
parameters = [p.data for p in cell.parameters()]
torch_xla.sync()


def step(x, before):
    return torch.tanh(cell(torch.cat([x, before], 1)))


def main():
    state = torch.zeros(4, 8).to("xla")
    for _ in range(7):
        x = torch.randn(4, 4).to("xla")
        x = nn.functional.relu(x)
        state = step(x, state)
        state.pow(2).mean().backward(retain_graph=True)
        for value, p in zip(parameters, cell.parameters(), strict=True):
            value.add_(p.grad, alpha=-0.05)
            p.grad = None
        torch_xla.sync()


main()
