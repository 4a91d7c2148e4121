# facial landmark regression
import torch
from torch import nn
import torch_xla


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.LeakyReLU(0.1), nn.MaxPool2d(2))


class Landmarks(nn.Module):
    def __init__(self, points=17):
        super().__init__()
        self.features = nn.Sequential(conv(1, 8), conv(8, 16), conv(16, 32))
        self.coords = nn.Linear(32 * 5 * 5, points * 2)

    def forward(self, x):
        return self.coords(self.features(x).flatten(1))


torch.manual_seed(9)
device = torch_xla.device()
net = Landmarks().to(device)
criterion = nn.MSELoss()
optim = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, nesterov=True)

for step in range(4):
    faces = torch.rand(8, 1, 40, 40).to(device)
    target = torch.rand(8, 34).to(device)
    optim.zero_grad()
    loss = criterion(net(faces), target)
    loss.backward()
    optim.step()
    torch_xla.sync()
