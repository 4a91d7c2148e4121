"""Two adapters of one frozen model, each of a size of its own: stage by stage, then in turns."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
body = nn.Linear(8, 8).to("xla").requires_grad_(False)
adapters = nn.ModuleDict(
    {
        name: nn.Sequential(nn.Linear(8, rank), nn.Linear(rank, 8))
        for name, rank in (("one", 2), ("two", 4))
    }
).to("xla")
optimizers = {name: torch.optim.Adam(adapters[name].parameters()) for name in adapters}
lengths = {"one": 6, "two": 10}


def result(name):
    x = torch.rand(4, lengths[name], 8).to("xla")
    return (body(x) + adapters[name](x)).tanh().pow(2).mean()


def train(name):
    result(name).backward()
    optimizers[name].step()
    optimizers[name].zero_grad()
    torch_xla.sync()


def evaluate(name):
    for _ in range(2):
        with torch.no_grad():
            kept = result(name)
        torch_xla.sync()
        kept.item()


for name in adapters:
    for _ in range(8):
        train(name)
    evaluate(name)
for step in range(16):
    train(("one", "two")[step % 2])
for name in adapters:
    evaluate(name)
