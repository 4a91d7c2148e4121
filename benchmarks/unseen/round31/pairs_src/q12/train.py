"""Keyword spotting with a small separable-convolution network; SpecAugment runs on the device."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_MELS, FRAMES, CLASSES = 24, 64, 12


class SpecAugment:
    """Masks a band of mel channels and two stretches of time. Widths are fixed, so shapes stay static on the TPU."""

    def __init__(self, freq_width=5, time_width=9, n_time=2):
        self.freq_width, self.time_width, self.n_time = freq_width, time_width, n_time

    def __call__(self, spec):
        spec = spec.clone()
        fill = spec.mean(dim=(1, 2), keepdim=True)
        f0 = random.randrange(0, spec.size(1) - self.freq_width)
        spec[:, f0:f0 + self.freq_width] = fill
        for _ in range(self.n_time):
            t0 = random.randrange(0, spec.size(2) - self.time_width)
            spec[:, :, t0:t0 + self.time_width] = fill
        return spec


class Separable(nn.Module):
    def __init__(self, cin, cout, k, dilation=1, residual=True):
        super().__init__()
        pad = dilation * (k - 1) // 2
        self.dw = nn.Conv1d(cin, cin, k, padding=pad, dilation=dilation, groups=cin, bias=False)
        self.pw = nn.Conv1d(cin, cout, 1, bias=False)
        self.bn = nn.BatchNorm1d(cout, momentum=0.05)
        self.skip = nn.Sequential(nn.Conv1d(cin, cout, 1, bias=False), nn.BatchNorm1d(cout)) if residual else None

    def forward(self, x):
        y = self.bn(self.pw(self.dw(x)))
        if self.skip is not None:
            y = y + self.skip(x)
        return F.relu(y)


class KWSNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.augment = SpecAugment()
        self.body = nn.Sequential(
            Separable(N_MELS, width, 11, residual=False),
            Separable(width, width, 7),
            Separable(width, width, 9),
            Separable(width, 2 * width, 11, dilation=2, residual=False),
        )
        self.att = nn.Conv1d(2 * width, 1, 1)
        self.head = nn.Linear(4 * width, CLASSES)

    def forward(self, spec):
        spec = torch.log(spec + 1e-5)
        spec = (spec - spec.mean(2, keepdim=True)) / (spec.std(2, keepdim=True) + 1e-4)
        if self.training:
            spec = self.augment(spec)
        h = self.body(spec)
        w = torch.softmax(self.att(h), dim=-1)
        mean = (w * h).sum(-1)
        std = ((w * (h - mean.unsqueeze(-1)) ** 2).sum(-1) + 1e-5).sqrt()
        return self.head(torch.cat([mean, std], 1))


class Clips(torch.utils.data.Dataset):
    def __init__(self, n=96, seed=0):
        g = np.random.default_rng(seed)
        self.y = g.integers(0, CLASSES, n)
        t = np.arange(FRAMES)
        self.x = []
        for y in self.y:
            ridge = np.exp(-0.5 * (np.arange(N_MELS)[:, None] - (y + 6 + 4 * np.sin(t / (5 + y)))[None]) ** 2)
            self.x.append((ridge + 0.05 * g.random((N_MELS, FRAMES))).astype(np.float32))

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], int(self.y[i])


def main():
    torch.manual_seed(1)
    random.seed(1)
    device = torch_xla.device()
    xm.set_rng_state(1, device)
    loader = torch.utils.data.DataLoader(Clips(), batch_size=16, shuffle=True, drop_last=True)
    model = KWSNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3)
    total = 3 * len(loader)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 0.5 * (1 + math.cos(math.pi * s / total)))
    torch_xla.sync()
    step = 0
    for epoch in range(2):
        model.train()
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            opt.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            loss.backward()
            opt.step()
            sched.step()
            torch_xla.sync()
            step += 1
            if step % 2 == 0:
                print(epoch, step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
