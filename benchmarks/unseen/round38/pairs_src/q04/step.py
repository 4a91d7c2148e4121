"""Small U-net that picks P and S arrivals in three-component seismograms.
Usage: step.py a.hlo b.hlo (the text before the sync of steps 5 and 6)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DUMP_AT = (5, 6)


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 5, stride=stride, padding=2, bias=False)
        self.norm = nn.GroupNorm(2, cout)

    def forward(self, x):
        return F.gelu(self.norm(self.conv(x)))


class Picker(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Block(3, 4)
        self.down = Block(4, 6, stride=2)
        self.up = nn.ConvTranspose1d(6, 4, 4, stride=2, padding=1)
        self.fuse = Block(8, 4)
        self.head = nn.Conv1d(4, 3, 1)

    def forward(self, x):
        skip = self.stem(x)
        y = self.up(self.down(skip))
        return self.head(self.fuse(torch.cat([skip, y], dim=1)))


def soft_labels(batch, length):
    centre = torch.rand(batch, 2, 1) * length
    t = torch.arange(length).float()
    bumps = torch.exp(-0.5 * ((t - centre) / 2.0) ** 2)
    noise = (1 - bumps.sum(1, keepdim=True)).clamp(min=0)
    y = torch.cat([bumps, noise], dim=1)
    return y / y.sum(1, keepdim=True)


def main(paths):
    dev = torch_xla.device()
    torch.manual_seed(8)
    net = Picker().to(dev)
    opt = torch.optim.RAdam(net.parameters(), lr=4e-3, weight_decay=1e-3, foreach=False)
    torch_xla.sync()
    for step in range(1, 8):
        x = torch.randn(4, 3, 32).to(dev)
        y = soft_labels(4, 32).to(dev)
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        if step in DUMP_AT:
            live = [loss.detach()]
            for p in net.parameters():
                live += [p.data, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(paths[DUMP_AT.index(step)], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1:])
