"""Wake-word spotting on log-mel features: depthwise-separable convolutions, squeeze-excite, attention pooling."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class SqueezeExcite(nn.Module):
    def __init__(self, ch, reduce=4):
        super().__init__()
        self.fc1 = nn.Linear(ch, ch // reduce, bias=False)
        self.fc2 = nn.Linear(ch // reduce, ch)

    def forward(self, x):
        s = self.fc2(F.silu(self.fc1(x.mean(-1))))
        return x * s.sigmoid().unsqueeze(-1)


class SepConv(nn.Module):
    def __init__(self, cin, cout, kernel, stride=1):
        super().__init__()
        self.dw = nn.Conv1d(cin, cin, kernel, stride=stride, padding=kernel // 2, groups=cin, bias=False)
        self.pw = nn.Conv1d(cin, cout, 1, bias=False)
        self.bn = nn.BatchNorm1d(cout)
        self.se = SqueezeExcite(cout)

    def forward(self, x):
        return self.se(F.silu(self.bn(self.pw(self.dw(x)))))


class WakeWord(nn.Module):
    def __init__(self, mels=16, ch=16, words=6):
        super().__init__()
        self.front = SepConv(mels, ch, 5, stride=2)
        self.body = SepConv(ch, ch, 7)
        self.score = nn.Conv1d(ch, 1, 1)
        self.out = nn.Linear(ch, words)

    def forward(self, x):
        x = self.front(x)
        x = x + self.body(x)
        w = self.score(x).softmax(-1)
        return self.out((x * w).sum(-1))


class Clips:
    def __init__(self, batch, frames, seed):
        self.rng, self.batch, self.frames = np.random.default_rng(seed), batch, frames

    def next(self):
        y = self.rng.integers(0, 6, self.batch)
        x = self.rng.normal(size=(self.batch, 16, self.frames))
        x[np.arange(self.batch), y] += 1.0
        return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def spec_augment(x, rng, width=4):
    m = np.ones((x.shape[0], x.shape[1], x.shape[2]), np.float32)
    for i in range(x.shape[0]):
        t, f = rng.integers(0, x.shape[2] - width), rng.integers(0, x.shape[1] - width)
        m[i, :, t:t + width] = 0.0
        m[i, f:f + width] = 0.0
    return x * torch.from_numpy(m)


def freeze(model, prefixes):
    for name, p in model.named_parameters():
        if name.startswith(tuple(prefixes)):
            p.requires_grad_(False)


def build_optimizer(params, args):
    return torch.optim.AdamW(params, lr=args.lr, weight_decay=1e-3)


def main(args):
    device = torch_xla.device()
    torch.manual_seed(args.seed)
    model = WakeWord().to(device)
    if args.freeze:
        freeze(model, args.freeze)
    params = filter(lambda p: p.requires_grad, model.parameters())
    opt = build_optimizer(params, args)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=200)
    data = Clips(args.batch, args.frames, args.seed)
    rng = np.random.default_rng(args.seed + 1)
    torch_xla.sync()

    for step in range(args.steps):
        x, y = data.next()
        x, y = spec_augment(x, rng).to(device), y.to(device)
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
        loss.backward()
        gnorm = nn.utils.clip_grad_norm_(params, args.clip)
        opt.step()
        sched.step()
        torch_xla.sync()
        print(f"{step} loss {loss.item():.4f} gnorm {gnorm.item():.3f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--frames", type=int, default=24)
    ap.add_argument("--steps", type=int, default=4)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--clip", type=float, default=0.5)
    ap.add_argument("--freeze", nargs="*", default=[])
    ap.add_argument("--seed", type=int, default=31)
    main(ap.parse_args())
