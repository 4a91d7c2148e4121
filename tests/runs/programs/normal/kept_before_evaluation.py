"""The last step before each evaluation keeps what the model gave: that is a training's graph."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
kept = None


def train(keeps):
    global kept
    x = torch.rand(4, 8).to("xla")
    optimizer.zero_grad()
    y = model(x)
    (y - x).pow(2).mean().backward()
    kept = y.detach().exp() if keeps else None
    optimizer.step()
    torch_xla.sync()


def evaluate():
    for _ in range(3):
        with torch.no_grad():
            y = model(torch.rand(4, 8).to("xla")).tanh()
        torch_xla.sync()
        y.mean().item()


for _ in range(3):
    for step in range(8):
        train(step == 7)
    evaluate()
