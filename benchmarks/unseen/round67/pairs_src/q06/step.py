"""Policy / value tower for chess positions (12 piece planes plus side to move)."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

PLANES = 13
MOVES = 73
BATCH = 4


class Residual(nn.Module):
    def __init__(self, ch, survive):
        super().__init__()
        self.survive = survive
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.gn1 = nn.GroupNorm(4, ch)
        self.gn2 = nn.GroupNorm(4, ch)

    def forward(self, x):
        if self.training and random.random() > self.survive:
            return x
        y = F.relu(self.gn1(self.conv1(x)))
        y = self.gn2(self.conv2(y))
        if not self.training:
            y = y * self.survive
        return F.relu(x + y)


class Tower(nn.Module):
    def __init__(self, ch=16, depth=3, survive_last=0.6):
        super().__init__()
        self.stem = nn.Conv2d(PLANES, ch, 3, padding=1)
        rates = [1.0 - i / (depth - 1) * (1.0 - survive_last) for i in range(depth)]
        self.blocks = nn.ModuleList(Residual(ch, s) for s in rates)
        self.policy = nn.Conv2d(ch, MOVES, 1)
        self.value1 = nn.Linear(ch, 16)
        self.value2 = nn.Linear(16, 3)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        wdl = self.value2(F.relu(self.value1(x.mean((2, 3)))))
        return self.policy(x).flatten(1), wdl


def positions(g):
    board = (torch.rand(BATCH, PLANES, 8, 8, generator=g) < 0.1).float()
    visits = torch.softmax(4 * torch.randn(BATCH, MOVES * 64, generator=g), dim=-1)
    result = torch.randint(0, 3, (BATCH,), generator=g)
    return board, visits, result


def main():
    torch.manual_seed(4)
    random.seed(16)
    device = xm.xla_device()
    net = Tower().to(device).train()
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    g = torch.Generator().manual_seed(4)
    torch_xla.sync()
    for step in range(8):
        board, visits, result = (t.to(device) for t in positions(g))
        opt.zero_grad()
        pi, wdl = net(board)
        loss = -(visits * F.log_softmax(pi, dim=-1)).sum(-1).mean() + F.cross_entropy(wdl, result)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, met.counter_value("UncachedCompile"), round(loss.item(), 3))


if __name__ == "__main__":
    main()
