"""A curriculum: the model is rolled out for 1, 3 and 5 steps, and the loss is their mean."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.ELU(), nn.Linear(16, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
states, actions = torch.randn(9, 8, 6, 4), torch.randn(9, 8, 6, 1)
for horizon in (1, 3, 5):
    for state, action in zip(states, actions, strict=True):
        s, a = state.to("xla"), action.to("xla")
        now, loss = s[:, 0], torch.zeros((), device="xla")
        for t in range(horizon):
            now = now + model(torch.cat([now, a[:, t]], 1))
            loss = loss + nn.functional.mse_loss(now, s[:, t + 1])
        optimizer.zero_grad()
        (loss / horizon).backward()
        optimizer.step()
        torch_xla.sync()
