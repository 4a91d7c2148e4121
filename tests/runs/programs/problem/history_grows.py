"""L-BFGS keeps what each step found, and goes through all of it in the next one."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to("xla")
x = torch.randn(8, 3).to("xla")
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=1, history_size=50)
torch_xla.sync()


def closure():
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    return loss


for _ in range(5):
    optimizer.step(closure)
    torch_xla.sync()
