"""
Fine-tunes a small text classifier the ULMFiT way: the head first, then the top
block, then everything.  Weights are averaged from the second stage on, and the
averaged copy is the one that gets validated.
"""
import itertools
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import torch_xla
import torch_xla.core.xla_model as xm

conf = {
    "vocab": 200, "dim": 24, "heads": 4, "blocks": 2, "classes": 4, "len": 20,
    "batch": 16, "lr": 0.02, "stages": [("head", 10), ("top", 15), ("all", 120)],
    "avg_every": 5, "val_every": 15,
}


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.h = h

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, L, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2) / (D // self.h) ** 0.5).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(B, L, D))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Classifier(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok = nn.Embedding(c["vocab"], c["dim"])
        self.pos = nn.Parameter(torch.randn(c["len"], c["dim"]) * 0.02)
        self.blocks = nn.ModuleList(Block(c["dim"], c["heads"]) for _ in range(c["blocks"]))
        self.head = nn.Linear(c["dim"], c["classes"])

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean(1))

    def unfreeze(self, stage):
        groups = {
            "head": [self.head],
            "top": [self.head, self.blocks[-1]],
            "all": [self],
        }
        self.requires_grad_(False)
        for m in groups[stage]:
            m.requires_grad_(True)
        return [p for p in self.parameters() if p.requires_grad]


class Averager:
    def __init__(self, model):
        self.avg = [p.detach().clone() for p in model.parameters()]
        self.n = torch.ones((), device=self.avg[0].device)

    @torch.no_grad()
    def add(self, model):
        self.n += 1
        for a, p in zip(self.avg, model.parameters()):
            a += (p - a) / self.n

    def named(self, model):
        return dict(zip((n for n, _ in model.named_parameters()), self.avg))


def corpus(n, c, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, c["classes"], (n,), generator=g)
    ids = torch.randint(0, c["vocab"], (n, c["len"]), generator=g)
    topic = y[:, None] * 40 + torch.randint(0, 40, ids.shape, generator=g)
    ids = torch.where(torch.rand(ids.shape, generator=g) < 0.3, topic, ids)
    return TensorDataset(ids, y)


def validate(model, weights, loader, device):
    correct = torch.zeros((), device=device)
    n = 0
    with torch.no_grad():
        for ids, y in loader:
            ids, y = ids.to(device), y.to(device)
            out = torch.func.functional_call(model, weights, (ids,))
            correct += (out.argmax(-1) == y).sum()
            n += len(y)
            torch_xla.sync()
    return correct.item() / n


def fit(c):
    random.seed(0)
    torch.manual_seed(0)
    device = torch_xla.device()
    train = DataLoader(corpus(256, c, 1), c["batch"], shuffle=True, drop_last=True)
    val = DataLoader(corpus(64, c, 2), c["batch"])
    feed = itertools.chain.from_iterable(itertools.repeat(train))
    model = Classifier(c).to(device)
    averager = Averager(model)
    torch_xla.sync()
    step = 0
    for stage, length in c["stages"]:
        params = model.unfreeze(stage)
        opt = torch.optim.SGD(params, lr=c["lr"], momentum=0.9)
        for ids, y in itertools.islice(feed, length):
            step += 1
            with torch_xla.step():
                loss = F.cross_entropy(model(ids.to(device)), y.to(device))
                opt.zero_grad()
                loss.backward()
                opt.step()
            if stage != "head" and step % c["avg_every"] == 0:
                averager.add(model)
                torch_xla.sync()
            if step % c["val_every"] == 0:
                acc = validate(model, averager.named(model), val, device)
                print(f"{stage:>4} step {step:3d} loss {loss.item():.4f} val acc {acc:.3f}", flush=True)


if __name__ == "__main__":
    fit(conf)
