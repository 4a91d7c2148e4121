"""Keyword spotter for a washing-machine panel (log-mel input, GRU-free)."""
import collections
import dataclasses
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla as txla

WORDS = ("start", "stop", "cotton", "wool", "spin", "lock")


@dataclasses.dataclass(frozen=True)
class Recipe:
    frames: int = 40
    mels: int = 16
    batch: int = 24
    steps: int = 36
    lr: float = 4e-3
    max_time: int = 8
    max_mel: int = 4
    plateau_window: int = 30
    plateau_slack: float = 1.02
    check_every: int = 9


class SpeechSource:
    def __init__(self, r: Recipe, seed: int):
        self.r = r
        self.gen = torch.Generator().manual_seed(seed)
        self.protos = torch.randn(len(WORDS), r.frames, r.mels,
                                  generator=torch.Generator().manual_seed(0))

    def __call__(self):
        y = torch.randint(len(WORDS), (self.r.batch,), generator=self.gen)
        noise = torch.randn(self.r.batch, self.r.frames, self.r.mels, generator=self.gen)
        return self.protos[y] + 1.5 * noise, y


class Masking(nn.Module):
    """Blanks one stripe of frames and one stripe of mel channels."""

    def __init__(self, r: Recipe):
        super().__init__()
        self.r = r
        self.rand = random.Random(8)

    def stripe(self, size, widest):
        width = self.rand.randint(1, widest)
        begin = self.rand.randint(0, size - width)
        return begin, begin + width

    def forward(self, x):
        if not self.training:
            return x
        x = x.clone()
        t0, t1 = self.stripe(self.r.frames, self.r.max_time)
        x[:, t0:t1] = 0
        m0, m1 = self.stripe(self.r.mels, self.r.max_mel)
        x[:, :, m0:m1] = 0
        return x


class Spotter(nn.Module):
    def __init__(self, r: Recipe):
        super().__init__()
        self.mask = Masking(r)
        self.frame = nn.Sequential(nn.Linear(r.mels, 32), nn.ReLU(), nn.Linear(32, 32))
        self.score = nn.Linear(32, 1)
        self.word = nn.Linear(32, len(WORDS))

    def forward(self, x):
        h = self.frame(self.mask(x))
        w = self.score(h).softmax(dim=1)
        return self.word((w * h).sum(1))


class Plateau:
    """Lowers the learning rate when the recent mean stops improving."""

    def __init__(self, opt, r: Recipe):
        self.opt, self.slack = opt, r.plateau_slack
        self.recent = collections.deque(maxlen=r.plateau_window)
        self.mean = None
        self.best = float("inf")

    def update(self, loss):
        self.recent.append(loss.detach())
        self.mean = torch.stack(tuple(self.recent)).mean()

    def decide(self):
        value = self.mean.item()
        if value > self.best * self.slack:
            for g in self.opt.param_groups:
                g["lr"] *= 0.5
        self.best = min(self.best, value)
        return value


@torch.no_grad()
def error_rate(net, batches):
    net.eval()
    wrong = sum((net(x).argmax(-1) != y).float().mean() for x, y in batches)
    net.train()
    return (wrong / len(batches)).item()


def train(r: Recipe):
    torch.manual_seed(2)
    dev = txla.device()
    net = Spotter(r).to(dev)
    opt = torch.optim.RMSprop(net.parameters(), lr=r.lr)
    plateau = Plateau(opt, r)
    source, other = SpeechSource(r, 1), SpeechSource(r, 1000)
    check = [tuple(t.to(dev) for t in other()) for _ in range(2)]
    txla.sync()
    for step in range(1, r.steps + 1):
        x, y = (t.to(dev) for t in source())
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        plateau.update(loss)
        txla.sync()
        if step % r.check_every == 0:
            print(f"{step:4d}  mean loss {plateau.decide():.4f}  word error {error_rate(net, check):.3f}"
                  f"  lr {opt.param_groups[0]['lr']:.1e}")
    return net


if __name__ == "__main__":
    final = train(Recipe())
    n = sum(p.numel() for p in final.parameters())
    print(f"{n} parameters, words: {', '.join(WORDS)}")
