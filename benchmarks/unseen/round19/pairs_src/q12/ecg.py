# 1d-CNN arrhythmia classifier with a random circular shift of the trace
import random
import sys

import torch
import torch.nn as nn
import torch_xla


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv1d(2, 8, 7, padding=3), nn.GroupNorm(2, 8), nn.SiLU(),
            nn.Conv1d(8, 16, 5, stride=2, padding=2), nn.GroupNorm(4, 16), nn.SiLU(),
            nn.Conv1d(16, 16, 3, stride=2, padding=1), nn.SiLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.g = nn.Linear(16, 4)

    def forward(self, x):
        return self.g(self.f(x))


def augment(x, rng):
    s = rng.randrange(1, x.shape[-1])
    if ON_HOST:
        return torch.roll(x, s, dims=-1).to(dev)
    return torch.roll(x.to(dev), s, dims=-1)


ON_HOST = "--host-aug" in sys.argv
dev = torch_xla.device()
torch.manual_seed(0)
rng = random.Random(4)
net = Net().to(dev)
opt = torch.optim.Adamax(net.parameters(), lr=1e-3)
loss_fn = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 2.0, 4.0]).to(dev))
torch_xla.sync()
for i in range(7):
    x, y = torch.randn(12, 2, 128), torch.randint(0, 4, (12,))
    loss = loss_fn(net(augment(x, rng)), y.to(dev))
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch_xla.sync()
print(loss.item())
