# Keyword spotting with simulated int8, rewritten as a trainer class.
import argparse
import collections

import torch
import torch_xla
from torch import nn

Sizes = collections.namedtuple("Sizes", "mels frames words batch")


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


def simulate(tensor, step, limit=127):
    levels = tensor.div(step).clamp(min=-limit, max=limit)
    return StraightThrough.apply(levels).mul(step)


class Observer(nn.Module):
    """Tracks the largest activation."""

    momentum = 0.9

    def __init__(self):
        super().__init__()
        self.register_buffer("largest", torch.tensor(1.0))

    def forward(self, tensor):
        with torch.no_grad():
            self.largest.copy_(self.momentum * self.largest + 0.1 * tensor.abs().max())
        return simulate(tensor, self.largest / 127)


class Int8Conv(nn.Conv1d):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__(inputs, outputs, kernel_size=3, stride=stride, padding=1)
        self.observer = Observer()

    def forward(self, tensor):
        step = self.weight.detach().abs().max().div(127)
        weight = simulate(self.weight, step)
        result = self._conv_forward(tensor, weight, self.bias)
        return self.observer(result.relu())


class KeywordNet(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.classify = nn.Linear(16, sizes.words)
        self.third = Int8Conv(16, 16)
        self.second = Int8Conv(12, 16, stride=2)
        self.first = Int8Conv(sizes.mels, 12)

    def forward(self, audio):
        hidden = self.third(self.second(self.first(audio)))
        pooled = hidden.mean(dim=2)
        return self.classify(pooled)


class Trainer:
    def __init__(self, sizes, lr):
        self.sizes = sizes
        self.device = torch_xla.device()
        self.net = KeywordNet(sizes).to(self.device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=lr, momentum=0.9)
        self.criterion = nn.CrossEntropyLoss()
        torch_xla.sync()

    def batch(self):
        s = self.sizes
        labels = torch.randint(s.words, (s.batch,))
        audio = torch.randn(s.batch, s.mels, s.frames)
        return labels.to(self.device), audio.to(self.device)

    def step(self):
        labels, audio = self.batch()
        self.opt.zero_grad()
        logits = self.net(audio)
        margin = logits.topk(2).values.diff(dim=-1)
        del margin
        hits = (logits.argmax(dim=1) == labels).float().mean()
        loss = self.criterion(logits, labels)
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss.item(), hits.item()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--steps", type=int, default=3)
    opts = ap.parse_args()
    torch.manual_seed(77)
    trainer = Trainer(Sizes(8, 20, 6, 4), opts.lr)
    for n in range(opts.steps):
        print(n, *trainer.step())
