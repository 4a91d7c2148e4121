"""Causal dilated-convolution model of glucose traces (next-value density, discretised mixture of logistics)."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("HLO_OUT", os.path.join(HERE, "b.hlo"))
DUMP_AT = 2
MIX = 3


class GatedLayer(nn.Module):
    def __init__(self, width, skip, dilation):
        super().__init__()
        self.dilation = dilation
        self.conv = nn.Conv1d(width, 2 * width, 2, dilation=dilation)
        self.res = nn.Conv1d(width, width, 1)
        self.skip = nn.Conv1d(width, skip, 1)

    def forward(self, x):
        h = self.conv(F.pad(x, (0, self.dilation)))
        a, g = h.chunk(2, dim=1)
        h = torch.tanh(a) * torch.sigmoid(g)
        return x + self.res(h), self.skip(h)


class GlucoseNet(nn.Module):
    def __init__(self, width=8, skip=10, dilations=(1, 2, 4)):
        super().__init__()
        self.inp = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList(GatedLayer(width, skip, d) for d in dilations)
        self.out = nn.Conv1d(skip, 3 * MIX, 1)

    def forward(self, x):
        h = self.inp(x)
        total = 0
        for layer in self.layers:
            h, s = layer(h)
            total = total + s
        return self.out(F.relu(total))


def mixture_nll(params, y, half_bin=0.02):
    logit, mean, log_scale = params.chunk(3, dim=1)
    log_scale = log_scale.clamp(min=-5.0)
    centered = y - mean
    inv = torch.exp(-log_scale)
    upper = torch.sigmoid(inv * (centered + half_bin))
    lower = torch.sigmoid(inv * (centered - half_bin))
    log_prob = torch.log((upper - lower).clamp(min=1e-7))
    return -torch.logsumexp(log_prob + F.log_softmax(logit, dim=1), dim=1)


def train_step(net, opt, trace):
    opt.zero_grad(set_to_none=True)
    params = net(trace[:, :, :-1])
    loss = mixture_nll(params, trace[:, :, 1:]).mean()
    loss.backward()
    torch.nn.utils.clip_grad_value_(net.parameters(), 0.5)
    opt.step()
    return loss


def main(steps=3):
    dev = torch_xla.device()
    torch.manual_seed(3)
    net = GlucoseNet()
    data = [torch.randn(4, 1, 25).cumsum(-1) * 0.2 for _ in range(steps)]
    net = net.to(dev)
    params = list(net.parameters())
    opt = torch.optim.RMSprop(params, lr=1e-3, alpha=0.95, momentum=0.9, weight_decay=1e-4)
    for i, trace in enumerate(data):
        loss = train_step(net, opt, trace.to(dev))
        if i == DUMP_AT:
            # the last layer's residual branch takes no part in the loss and has no state
            seen = [p for p in params if p in opt.state]
            live = list(seen)
            live += [opt.state[p][k] for p in seen for k in ("square_avg", "momentum_buffer")]
            live.append(loss)
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(i, loss.item(), file=sys.stderr)


if __name__ == "__main__":
    main()
