"""Two-sensor crop inspection: depth points and RGB tile, one shared trainer class."""
from collections import OrderedDict

import torch
import torch_xla
from torch import nn
from torch.nn import functional as fn


class PointNet(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.layers = nn.ModuleDict({
            "shrink": nn.Linear(2 * features, features),
            "lift": nn.Linear(4, 2 * features),
        })

    def forward(self, points):
        lifted = self.layers["lift"](points).tanh()
        shrunk = self.layers["shrink"](lifted)
        return shrunk.amax(1)


def tile_net(features):
    return nn.Sequential(OrderedDict(
        a=nn.Conv2d(3, features, 3, stride=2, padding=1), a_act=nn.ReLU(),
        b=nn.Conv2d(features, features, 3, stride=2, padding=1), b_act=nn.ReLU()))


class Inspector(nn.Module):
    def __init__(self, features=8, grades=4):
        super().__init__()
        self.grade = nn.Linear(12, grades)
        self.mix = nn.Linear(2 * features, 12)
        self.points = PointNet(features)
        self.tile = tile_net(features)

    def forward(self, sample):
        depth = self.points(sample["depth"])
        colour = self.tile(sample["rgb"]).mean((2, 3))
        return self.grade(fn.softplus(self.mix(torch.cat([colour, depth], 1))))


class Session:
    def __init__(self, seed=1):
        torch.manual_seed(seed)
        self.dev = torch_xla.device()
        self.net = Inspector().to(self.dev)
        ordered = sorted(self.net.named_parameters(), key=lambda kv: kv[1].numel())
        self.opt = torch.optim.SGD([p for _, p in ordered], lr=0.05, weight_decay=1e-3)
        torch_xla.sync()

    def step(self, sample, grade):
        self.opt.zero_grad()
        objective = fn.cross_entropy(self.net(sample), grade)
        objective.backward()
        self.opt.step()
        torch_xla.sync()
        return objective


def belt(n, batch=8, grades=4):
    for k in range(n):
        g = torch.Generator().manual_seed(500 + k)
        grade = torch.randint(0, grades, (batch,), generator=g)
        yield {
            "depth": torch.randn(batch, 20, 4, generator=g) * (1 + 0.5 * grade[:, None, None]),
            "rgb": torch.rand(batch, 3, 12, 12, generator=g) + 0.1 * grade[:, None, None, None],
        }, grade


if __name__ == "__main__":
    run = Session()
    for i, (sample, grade) in enumerate(belt(8)):
        moved = {k: v.to(run.dev) for k, v in sample.items()}
        value = run.step(moved, grade.to(run.dev))
        if i % 4 == 3:
            print("tile", i, "objective", round(value.item(), 5))
