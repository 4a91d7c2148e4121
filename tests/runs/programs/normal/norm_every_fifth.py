"""Every fifth step keeps the norm of the gradients to be logged: the others have no such output."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to("xla")
norms = []
for step in range(26):
    loss = model(torch.randn(6, 8).to("xla")).pow(2).mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p.sub_(0.05 * p.grad)
        if step % 5 == 4:
            norms.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm())
    torch_xla.sync()
