import random

import torch
import torch.nn as nn
import torch_xla

from p06_layers import MixerStage


class TinyMixer(nn.Module):
    def __init__(self, patches=16, dim=12, depth=4, classes=5):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, 2, stride=2)
        rates = [0.1 + 0.4 * i / (depth - 1) for i in range(depth)]
        self.stages = nn.ModuleList(MixerStage(patches, dim, r) for r in rates)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        for stage in self.stages:
            x = stage(x)
        return self.head(self.norm(x).mean(1))


def batches(n):
    for _ in range(n):
        yield torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))


random.seed(4)
torch.manual_seed(4)
device = torch.device("xla")
model = TinyMixer().to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
for i, (x, y) in enumerate(batches(10)):
    loss = criterion(model(x.to(device)), y.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch_xla.sync()
    print(i, loss.item())
