import torch
import torch.nn as nn
import torch_xla

WINDOW = 4


class Forecaster(nn.Module):
    def __init__(self, d=3, hidden=12):
        super().__init__()
        self.cell, self.out = nn.GRUCell(d, hidden), nn.Linear(hidden, d)
        self.hidden = hidden

    def forward(self, x, h):
        h = self.cell(x, h)
        return self.out(h), h


def signal(n):
    t = torch.arange(n)[:, None] * 0.3
    return torch.cat([t.sin(), (2 * t).cos(), (0.5 * t).sin()], 1)


class OnlineLearner:
    def __init__(self, device):
        self.device = device
        self.model = Forecaster().to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.h = torch.zeros(1, self.model.hidden, device=device)
        self.pending, self.count = 0.0, 0

    def observe(self, now, nxt):
        pred, self.h = self.model(now, self.h)
        err = (pred - nxt).pow(2).mean()
        self.pending = self.pending + err
        self.count += 1
        torch_xla.sync()
        if self.count % WINDOW == 0:
            self.learn()
        return err.detach()

    def learn(self):
        self.opt.zero_grad()
        (self.pending / WINDOW).backward()
        self.opt.step()
        self.h = self.h.detach()
        self.pending = 0.0
        torch_xla.sync()


torch.manual_seed(3)
dev = torch_xla.device()
series = signal(17)
learner = OnlineLearner(dev)
for i in range(16):
    err = learner.observe(series[i:i + 1].to(dev), series[i + 1:i + 2].to(dev))
    print(i, round(err.item(), 4))
