"""Phishing URL classifier on character n-gram bags, with gradient health monitoring."""
import random

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB = 64
LEN = 20
BATCH = 8
STEPS = 40


class UrlNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.chars = nn.Embedding(VOCAB, width)
        self.mix = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, 24)
        self.out = nn.Linear(24, 1)

    def forward(self, ids):
        h = torch.relu(self.mix(self.chars(ids)))
        h = self.norm(h.mean(dim=1))
        return self.out(torch.relu(self.hidden(h))).squeeze(-1)


def make_batch(gen):
    ids = torch.randint(0, VOCAB, (BATCH, LEN), generator=gen)
    suspicious = (ids < 9).float().mean(dim=1) > 0.14
    return ids, suspicious.float()


class GradientMonitor:
    """Keeps the latest gradient norm of the layers it has looked at."""

    def __init__(self, model, per_step, seed):
        self.params = dict(model.named_parameters())
        self.per_step = per_step
        self.rng = random.Random(seed)
        self.latest = {}

    def observe(self):
        for name in self.rng.sample(sorted(self.params), self.per_step):
            grad = self.params[name].grad
            self.latest[name] = grad.detach().norm()

    def report(self):
        return {k: round(v.item(), 4) for k, v in sorted(self.latest.items())}


def train():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    device = xm.xla_device()
    net = UrlNet().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    criterion = nn.BCEWithLogitsLoss()
    monitor = GradientMonitor(net, per_step=3, seed=2)
    for step in range(1, STEPS + 1):
        ids, label = make_batch(gen)
        ids, label = ids.to(device), label.to(device)
        opt.zero_grad()
        loss = criterion(net(ids), label)
        loss.backward()
        monitor.observe()
        opt.step()
        torch_xla.sync()
        if step % 20 == 0:
            print(step, round(loss.item(), 4), monitor.report())


if __name__ == "__main__":
    train()
