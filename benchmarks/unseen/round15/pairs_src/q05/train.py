"""Phoneme tagging of filterbank frames with a residual TDNN."""
import random
from typing import NamedTuple

import torch
import torch.nn as nn
import torch_xla
import torch_xla.debug.metrics as met


class HParams(NamedTuple):
    mels: int = 20
    frames: int = 40
    channels: int = 24
    blocks: int = 4
    phones: int = 12
    skip: float = 0.1
    lr: float = 0.01
    iters: int = 45
    batch: int = 8


class TdnnBlock(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.conv = nn.Conv1d(c, c, 3, padding=dilation, dilation=dilation)
        self.gate = nn.Conv1d(c, c, 1)
        self.scale = nn.Parameter(torch.full((c, 1), 0.3))

    def forward(self, x):
        h = self.conv(x)
        return torch.tanh(h) * torch.sigmoid(self.gate(h)) * self.scale


class Tagger(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.front = nn.Conv1d(hp.mels, hp.channels, 5, padding=2)
        self.stack = nn.ModuleList(TdnnBlock(hp.channels, 2 ** (i % 3)) for i in range(hp.blocks))
        self.survive = [1.0 - hp.skip * (i + 1) / hp.blocks for i in range(hp.blocks)]
        self.final = nn.Conv1d(hp.channels, hp.phones, 1)

    def forward(self, feats):
        x = self.front(feats)
        for block, keep in zip(self.stack, self.survive):
            if self.training and random.random() > keep:
                continue
            x = x + block(x)
        return self.final(torch.relu(x))


class Corpus:
    def __init__(self, hp, seed):
        self.hp, self.g = hp, torch.Generator().manual_seed(seed)
        self.proto = torch.randn(hp.phones, hp.mels, generator=self.g)

    def sample(self):
        hp = self.hp
        seg = torch.randint(0, hp.phones, (hp.batch, hp.frames // 5), generator=self.g)
        lab = seg.repeat_interleave(5, dim=1)
        x = self.proto[lab] + 0.6 * torch.randn(hp.batch, hp.frames, hp.mels, generator=self.g)
        return x.transpose(1, 2).contiguous(), lab


def train(hp=HParams(), seed=21):
    random.seed(seed)
    torch.manual_seed(seed)
    dev = torch_xla.device()
    net = Tagger(hp).to(dev)
    crit = nn.CrossEntropyLoss(label_smoothing=0.05)
    opt = torch.optim.Adagrad(net.parameters(), lr=hp.lr)
    corpus = Corpus(hp, seed + 1)
    seen = correct = 0
    for it in range(1, hp.iters + 1):
        x, y = corpus.sample()
        with torch_xla.step():
            x, y = x.to(dev), y.to(dev)
            logits = net(x)
            loss = crit(logits, y)
            for p in net.parameters():
                p.grad = torch.zeros_like(p)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            hit = (logits.argmax(1) == y).sum()
        correct, seen = correct + hit.item(), seen + y.numel()
        if it % 9 == 0:
            print(f"{it:4d} ce {loss.item():.3f} frame-acc {correct / seen:.3f} "
                  f"compiled {met.counter_value('UncachedCompile')}")
            correct = seen = 0


if __name__ == "__main__":
    train()
