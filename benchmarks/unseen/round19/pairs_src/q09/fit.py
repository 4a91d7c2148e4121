"""LSTM load forecaster.  --recipe old | new"""
import argparse
import torch
import torch.nn as nn
import torch_xla


class Cell(nn.Module):
    def __init__(self, i, h):
        super().__init__()
        self.ih = nn.Linear(i, 4 * h)
        self.hh = nn.Linear(h, 4 * h, bias=False)

    def forward(self, x, state):
        h, c = state
        i, f, g, o = (self.ih(x) + self.hh(h)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return h, c


class Forecaster(nn.Module):
    def __init__(self, feat=5, hid=20, horizon=3):
        super().__init__()
        self.cell = Cell(feat, hid)
        self.head = nn.Linear(hid, horizon)
        self.hid = hid

    def forward(self, x):
        h = torch.zeros(x.size(0), self.hid, device=x.device)
        c = torch.zeros_like(h)
        for t in range(x.size(1)):
            h, c = self.cell(x[:, t], (h, c))
        return self.head(h)


def build(recipe, params):
    if recipe == "old":
        return nn.MSELoss(), torch.optim.SGD(params, lr=0.05, momentum=0.9)
    return nn.SmoothL1Loss(), torch.optim.SGD(params, lr=0.05, momentum=0.9, nesterov=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--recipe", default="old", choices=["old", "new"])
    a = ap.parse_args()
    torch.manual_seed(7)
    dev = torch_xla.device()
    net = Forecaster().to(dev)
    crit, opt = build(a.recipe, net.parameters())
    for it in range(5):
        with torch_xla.step():
            x = torch.randn(16, 7, 5).to(dev)
            y = x[:, -3:, 0].cumsum(1)
            opt.zero_grad()
            loss = crit(net(x), y)
            loss.backward()
            opt.step()
    print(loss.item())
