"""Every fifth update moves slow weights, and copies them into the fast ones."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to("xla")
slow = [p.detach().clone() for p in model.parameters()]
torch_xla.sync()
for step in range(26):
    loss = model(torch.randn(6, 8).to("xla")).pow(2).mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p.sub_(0.05 * p.grad)
        if step % 5 == 4:
            for mean, p in zip(slow, model.parameters(), strict=True):
                mean.lerp_(p, 0.5)
                p.copy_(mean)
    torch_xla.sync()
