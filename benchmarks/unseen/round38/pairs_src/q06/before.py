"""Dilated temporal convolutions for quantile forecasts of blood glucose."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

QUANTILES = (0.1, 0.5, 0.9)


class TemporalBlock(nn.Module):
    def __init__(self, cin, cout, dilation, kernel=3):
        super().__init__()
        self.span = (kernel - 1) * dilation
        self.conv = nn.Conv1d(cin, 2 * cout, kernel, dilation=dilation)
        self.skip = nn.Conv1d(cin, cout, 1)
        self.scale = nn.Parameter(torch.full((cout, 1), 0.1))

    def forward(self, x):
        y = self.conv(F.pad(x, (self.span, 0)))
        a, g = y.chunk(2, dim=1)
        return self.skip(x) + self.scale * torch.tanh(a) * torch.sigmoid(g)


class GlucoseTCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(TemporalBlock(4, 6, 1), TemporalBlock(6, 6, 2), TemporalBlock(6, 6, 4))
        self.head = nn.Conv1d(6, len(QUANTILES), 1)

    def forward(self, x):
        y = self.head(self.blocks(x))
        # quantiles never cross: first one free, the others by positive steps
        first, rest = y[:, :1], F.softplus(y[:, 1:])
        return torch.cat([first, first + torch.cumsum(rest, dim=1)], dim=1)


def pinball(pred, target):
    total = 0.0
    for i, q in enumerate(QUANTILES):
        err = target - pred[:, i]
        total = total + torch.maximum(q * err, (q - 1) * err).mean()
    return total


def make_optimizer(net):
    decay, plain = [], []
    for name, p in net.named_parameters():
        (decay if name.endswith("weight") else plain).append(p)
    return torch.optim.AdamW([{"params": decay, "weight_decay": 0.02},
                              {"params": plain, "weight_decay": 0.0}],
                             lr=1e-3, betas=(0.9, 0.98), foreach=False)


def main(path):
    dev = torch_xla.device()
    torch.manual_seed(21)
    net = GlucoseTCN().to(dev)
    opt = make_optimizer(net)
    torch_xla.sync()
    for step in range(3):
        x = torch.randn(5, 4, 20).to(dev)
        y = torch.randn(5, 20).to(dev)
        opt.zero_grad()
        loss = pinball(net(x), y)
        loss.backward()
        opt.step()
        if step == 1:
            live = [loss.detach()]
            for p in net.parameters():
                live += [p.data, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
