"""Spiking classifier for tactile sensor streams: leaky units unrolled in time, surrogate gradient, RAdam.

Writes the HLO of two steps of one run: step.py <step> <path> <step> <path>
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

TAXELS, HIDDEN, CLASSES, TIME = 12, 10, 4, 4


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).to(v.dtype)

    @staticmethod
    def backward(ctx, g):
        v, = ctx.saved_tensors
        return g / (1.0 + 8.0 * v.abs()) ** 2


class LeakyLayer(nn.Module):
    def __init__(self, n_in, n_out, recurrent=False):
        super().__init__()
        self.fc = nn.Linear(n_in, n_out)
        self.rec = nn.Linear(n_out, n_out, bias=False) if recurrent else None
        self.decay = nn.Parameter(torch.full((n_out,), 1.5))

    def forward(self, seq):
        v = s = torch.zeros(seq[0].size(0), self.fc.out_features, device=seq[0].device)
        keep = torch.sigmoid(self.decay)
        out = []
        for x in seq:
            i = self.fc(x)
            if self.rec is not None:
                i = i + self.rec(s)
            v = keep * v * (1.0 - s.detach()) + (1.0 - keep) * i
            s = Spike.apply(v - 0.3)
            out.append(s)
        return out


class SpikingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = LeakyLayer(TAXELS, HIDDEN, recurrent=True)
        self.out = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        spikes = self.hidden(list(x.unbind(1)))
        rate = torch.stack(spikes, 1)
        return self.out(rate.mean(1)), rate


def main(*args):
    wanted = {int(args[i]): args[i + 1] for i in range(0, len(args), 2)}
    torch.manual_seed(41)
    gen = torch.Generator().manual_seed(42)
    net = SpikingNet().to("xla")
    params = list(net.parameters())
    opt = torch.optim.RAdam(params, lr=2e-3, weight_decay=1e-4)
    for step in range(1, max(wanted) + 1):
        x = (torch.randn(8, TIME, TAXELS, generator=gen) * 2.0).to("xla")
        y = torch.randint(0, CLASSES, (8,), generator=gen).to("xla")
        torch_xla.sync()
        opt.zero_grad()
        logits, rate = net(x)
        loss = F.cross_entropy(logits, y) + 0.05 * (rate.mean((0, 1)) - 0.2).pow(2).sum()
        loss.backward()
        opt.step()
        if step in wanted:
            live = [loss.detach()] + params
            for p in params:
                live += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            open(wanted[step], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, round(loss.item(), 5))


if __name__ == "__main__":
    main(*sys.argv[1:])
