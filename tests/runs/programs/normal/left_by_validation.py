"""Epochs of several lengths; the first step of each computes the score that was left pending."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def validate():
    scores = []
    for _ in range(5):
        with torch.no_grad():
            scores.append(model(torch.rand(6, 8).to("xla")).pow(2).mean())
        torch_xla.sync()
    return torch.stack(scores).mean()


for steps in (6, 5, 7, 6):
    total = torch.zeros((), device="xla")
    for _ in range(steps):
        loss = model(torch.rand(4, 8).to("xla")).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
        torch_xla.sync()
    score = validate()
    print(total.item(), score.item())
