"""P/S phase picking on a continuous three-component seismogram.

The day-long record stays on the device; windows are cut out of it for every
batch. Analysts only label around arrivals, everything else is 'ignore'.
"""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

RATE = 20
RECORD = 6000
WINDOW = 256
NOISE, P, S, IGNORE = 0, 1, 2, -1


def ricker(n, f, rng):
    t = (np.arange(n) - n / 4) / RATE
    a = (math.pi * f * t) ** 2
    return (1 - 2 * a) * np.exp(-a) * rng.normal(1, 0.1)


def synth_record(rng, n_events=45):
    wave = rng.normal(0, 0.15, (3, RECORD)).astype(np.float32)
    label = np.full(RECORD, IGNORE, np.int64)
    for start in np.sort(rng.integers(50, RECORD - 200, n_events)):
        gap = int(rng.integers(25, 90))
        amp = rng.gamma(3, 0.5)
        for off, f, comp in ((start, 3.0, (0.3, 0.3, 1.0)),
                             (start + gap, 1.5, (1.2, 1.0, 0.4))):
            w = ricker(60, f, rng)
            end = min(off + 60, RECORD)
            wave[:, off:end] += amp * np.outer(comp, w[:end - off])
        lo = max(start - int(rng.integers(10, 40)), 0)
        hi = min(start + gap + int(rng.integers(20, 60)), RECORD)
        label[lo:hi] = NOISE
        label[start:start + 8] = P
        label[start + gap:start + gap + 10] = S
    return torch.from_numpy(wave), torch.from_numpy(label)


class Block(nn.Module):

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 7, stride=stride, padding=3)
        self.norm = nn.GroupNorm(4, cout)

    def forward(self, x):
        return F.gelu(self.norm(self.conv(x)))


class Picker(nn.Module):

    def __init__(self, width=8):
        super().__init__()
        self.e1 = Block(3, width, 1)
        self.e2 = Block(width, width, 4)
        self.d1 = Block(width * 2, width, 1)
        self.head = nn.Conv1d(width, 3, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(a)
        b = b.repeat_interleave(4, dim=-1)
        return self.head(self.d1(torch.cat([a, b], 1)))


class WindowSampler:

    def __init__(self, record, label, batch, rng):
        self.record, self.label = record, label
        self.batch, self.rng = batch, rng

    def __iter__(self):
        return self

    def __next__(self):
        starts = self.rng.integers(0, RECORD - WINDOW, self.batch)
        x = torch.stack([self.record[:, s:s + WINDOW] for s in starts.tolist()])
        y = torch.stack([self.label[s:s + WINDOW] for s in starts.tolist()])
        x = x - x.mean(dim=-1, keepdim=True)
        return x / (x.std(dim=(1, 2), keepdim=True) + 1e-6), y


def pick_loss(logits, target, class_weight):
    raw = F.cross_entropy(logits, target.clamp_min(0), weight=class_weight,
                          reduction='none')
    return raw[target != IGNORE].mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--steps', type=int, default=18)
    ap.add_argument('--batch', type=int, default=3)
    ap.add_argument('--lr', type=float, default=3e-3)
    args = ap.parse_args()

    torch.manual_seed(31)
    rng = np.random.default_rng(31)
    device = torch_xla.device()

    record, label = synth_record(rng)
    sampler = WindowSampler(record.to(device), label.to(device), args.batch, rng)
    model = Picker().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.steps)
    class_weight = torch.tensor([0.5, 2.0, 2.0], device=device)
    running = torch.zeros((), device=device)
    xm.mark_step()

    for step, (x, y) in zip(range(args.steps), sampler):
        opt.zero_grad(set_to_none=True)
        loss = pick_loss(model(x), y, class_weight)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        running = 0.9 * running + 0.1 * loss.detach()
        xm.mark_step()
        if (step + 1) % 6 == 0:
            debias = 1 - 0.9 ** (step + 1)
            print(f'step {step + 1:3d} loss {running.item() / debias:.4f}')


if __name__ == '__main__':
    main()
