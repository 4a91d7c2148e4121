"""int8 keyword spotter -- functional version used by the firmware team.

Parameters live in a plain dict, the optimiser is written out, ranges are tracked per layer.
"""
import math
from collections import OrderedDict

import torch
import torch_xla
import torch_xla.core.xla_model as xm

LAYERS = OrderedDict(out=(64, 12), mid_b=(64, 64), mid_a=(64, 64), inp=(40, 64))
ORDER = ("inp", "mid_a", "mid_b", "out")
QMAX = 127.0


class _RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, step):
        grid = value / step
        ctx.save_for_backward(grid)
        return grid.round().clamp(-QMAX, QMAX) * step

    @staticmethod
    def backward(ctx, upstream):
        grid = ctx.saved_tensors[0]
        inside = grid.abs() <= QMAX
        return upstream * inside, None


def quantize(value, step):
    return _RoundSTE.apply(value, step)


def init_params(device):
    params, ranges = {}, {}
    for name, (fan_in, fan_out) in LAYERS.items():
        b = torch.zeros(fan_out)
        w = torch.randn(fan_out, fan_in) / math.sqrt(fan_in)
        params[name + ".b"] = b.to(device).requires_grad_()
        params[name + ".w"] = w.to(device).requires_grad_()
        ranges[name] = torch.ones(1).to(device)
    return params, ranges


def track(range_, x):
    with torch.no_grad():
        range_.copy_(0.9 * range_ + 0.1 * x.abs().max())
    return range_.clone() / QMAX


def dense(x, w, b, range_):
    x_step = track(range_, x)
    w_step = w.detach().abs().amax(1, keepdim=True) / QMAX
    wq = quantize(w, w_step)
    xq = quantize(x, x_step)
    return torch.nn.functional.linear(xq, wq, b)


def network(params, ranges, x):
    for name in ORDER:
        x = dense(x, params[name + ".w"], params[name + ".b"], ranges[name])
        if name != ORDER[-1]:
            x = x.relu()
    return x


def update(params, lr):
    with torch.no_grad():
        for p in params.values():
            p.add_(p.grad, alpha=-lr)


def nll(scores, labels):
    return torch.nn.functional.nll_loss(scores.log_softmax(dim=1), labels)


def summary(params):
    """Number of weights and their size in kB after export."""
    count = sum(p.numel() for n, p in params.items() if n.endswith(".w"))
    return f"{count} weights, {count / 1024:.1f} kB"


def train(steps=4, batch=16, lr=0.02):
    device = torch_xla.device()
    params, ranges = init_params(device)
    xm.master_print(summary(params))
    prototypes = torch.randn(12, 40)
    for i in range(steps):
        labels = torch.randint(0, 12, (batch,))
        mfcc = (prototypes[labels] + 0.4 * torch.randn(batch, 40)).to(device)
        labels = labels.to(device)
        for p in params.values():
            p.grad = None
        scores = network(params, ranges, mfcc)
        cost = nll(scores, labels)
        cost.backward()
        update(params, lr)
        xm.mark_step()
        xm.master_print(i, round(cost.item(), 4))


if __name__ == "__main__":
    torch.manual_seed(31)
    train()
