"""Multi-task regression: the task weights follow a linear schedule."""
import torch
import torch.nn as nn
import torch_xla


class SharedTrunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(9, 18), nn.ELU())
        self.depth_head, self.normal_head = nn.Linear(18, 1), nn.Linear(18, 3)

    def forward(self, x):
        h = self.trunk(x)
        return self.depth_head(h), self.normal_head(h)


class TaskBalance:
    def __init__(self, start=0.8, end=0.2, steps=12):
        self.start, self.end, self.steps = start, end, steps

    def weights(self, i):
        w = round(self.start + (self.end - self.start) * i / self.steps, 4)
        return w, round(1 - w, 4)


def main():
    torch.manual_seed(0)
    dev = torch_xla.device()
    model, balance = SharedTrunk().to(dev), TaskBalance()
    opt = torch.optim.SGD(model.parameters(), lr=0.03)
    for i in range(12):
        x = torch.randn(8, 9)
        depth, normal = x[:, :1].abs(), x[:, 1:4].tanh()
        pd, pn = model(x.to(dev))
        w_depth, w_normal = balance.weights(i)
        loss = (pd - depth.to(dev)).abs().mean() * w_depth + (pn - normal.to(dev)).abs().mean() * w_normal
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, w_depth, w_normal, round(loss.item(), 4))


main()
