"""Calibration: a scale and a bias alone are trained, and three micro-batches make an update."""

import torch
import torch_xla


class Calibrated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.score = torch.nn.Linear(8, 1).requires_grad_(False)
        self.scale = torch.nn.Parameter(torch.tensor(0.7))
        self.bias = torch.nn.Parameter(torch.tensor(-0.3))

    def forward(self, x):
        return self.score(x).squeeze(1) * self.scale + self.bias


net = Calibrated().to("xla")
optimizer = torch.optim.SGD([net.scale, net.bias], lr=0.1)
for _ in range(20):
    for _ in range(3):
        x, y = torch.randn(4, 8).to("xla"), torch.rand(4).to("xla")
        loss = (net(x) - y).pow(2).mean() / 3
        loss.backward()
        torch_xla.sync()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
