"""Keyword spotting on log-mel frames with separable 1-D convolutions, mixup, one-cycle SGD."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

MELS, FRAMES, WORDS = 12, 40, 6


class Separable(nn.Module):
    def __init__(self, i, o, k, stride=1):
        super().__init__()
        self.dw = nn.Conv1d(i, i, k, stride, k // 2, groups=i, bias=False)
        self.pw = nn.Conv1d(i, o, 1, bias=False)
        self.bn = nn.BatchNorm1d(o)

    def forward(self, x):
        return self.bn(self.pw(self.dw(x)))


class MatchBox(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.pro = Separable(MELS, c, 11, 2)
        self.b1 = Separable(c, c, 13)
        self.b2 = Separable(c, c, 15)
        self.res = nn.Conv1d(c, c, 1)
        self.epi = Separable(c, 2 * c, 17)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(2 * c, WORDS)

    def forward(self, x):
        x = F.relu(self.pro(x))
        y = self.b2(self.drop(F.relu(self.b1(x))))
        x = F.relu(y + self.res(x))
        x = F.relu(self.epi(x))
        return self.head(x.mean(-1))


def clips(n, seed=0):
    r = np.random.RandomState(seed)
    y = r.randint(0, WORDS, n)
    base = r.randn(WORDS, MELS, FRAMES)
    x = base[y] + 1.5 * r.randn(n, MELS, FRAMES)
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


def train(args):
    torch.manual_seed(args.seed)
    rng = np.random.RandomState(args.seed)
    dev = torch_xla.device()
    x, y = clips(args.bs * args.steps)
    model = MatchBox().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.05, total_steps=args.steps + 1)

    seen, running, hits = 0, 0.0, 0.0
    t0 = time.time()
    for step in range(args.steps):
        sl = slice(step * args.bs, (step + 1) * args.bs)
        xb, yb = x[sl].to(dev), y[sl].to(dev)
        lam = float(rng.beta(0.4, 0.4)) * 0.5 + 0.5
        mixed = lam * xb + (1 - lam) * xb.flip(0)
        logits = model(mixed)
        loss = lam * F.cross_entropy(logits, yb) + (1 - lam) * F.cross_entropy(logits, yb.flip(0))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()

        running += loss.detach() * args.bs
        hits += (logits.detach().argmax(-1) == yb).sum()
        seen += args.bs
        xm.mark_step()

        if (step + 1) % args.log_every == 0:
            print(f"{step + 1:4d} loss {running.item() / seen:.4f} acc {hits.item() / seen:.3f} "
                  f"{seen / (time.time() - t0):.0f} clips/s")
            seen, running, hits = 0, 0.0, 0.0
            t0 = time.time()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--bs", type=int, default=20)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--log-every", type=int, default=4)
    p.add_argument("--seed", type=int, default=0)
    train(p.parse_args())
