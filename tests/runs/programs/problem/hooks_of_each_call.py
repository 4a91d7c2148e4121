"""A perceptual loss that attaches its hook in every call and never removes it."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)).to("xla")
model = nn.Linear(4, 4).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch_xla.sync()


class Perceptual(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = []

    def collect(self, x):
        self.kept = []

        def keep(_module, _inputs, output):
            self.kept.append(output)

        net[0].register_forward_hook(keep)
        net(x)
        return self.kept

    def forward(self, x):
        return torch.stack([one.pow(2).mean() for one in self.collect(x)]).mean()


loss = Perceptual()
for _ in range(8):
    optimizer.zero_grad()
    loss(model(torch.randn(3, 4).to("xla"))).backward()
    optimizer.step()
    torch_xla.sync()
