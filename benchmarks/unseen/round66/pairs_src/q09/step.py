"""Bird call tagging: conv front end, gated conv layers, multi-label head."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met


class SpecAugment(nn.Module):
    def __init__(self, time_width=12):
        super().__init__()
        self.time_width = time_width

    def forward(self, x):
        if not self.training:
            return x
        x = x.clone()
        w = random.randint(4, self.time_width)
        t0 = random.randint(1, x.shape[-1] - w - 1)
        x[:, :, t0:t0 + w] = 0.0
        return x


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.pw1 = nn.Linear(d, 2 * d)
        self.dw = nn.Conv1d(d, d, 7, padding=3, groups=d)
        self.pw2 = nn.Linear(d, d)

    def forward(self, x):
        h, g = self.pw1(self.ln(x)).chunk(2, dim=-1)
        h = h * torch.sigmoid(g)
        h = self.dw(h.transpose(1, 2)).transpose(1, 2)
        return x + self.pw2(F.silu(h))


class Tagger(nn.Module):
    def __init__(self, mels=32, d=24, depth=3, species=9, layerdrop=0.2):
        super().__init__()
        self.augment = SpecAugment()
        self.front = nn.Conv1d(mels, d, 3, stride=2, padding=1)
        self.layers = nn.ModuleList([Layer(d) for _ in range(depth)])
        self.layerdrop = layerdrop
        self.pool = nn.Linear(d, 1)
        self.head = nn.Linear(d, species)

    def forward(self, mel):
        x = self.front(self.augment(mel)).transpose(1, 2)
        for layer in self.layers:
            if self.training and random.random() < self.layerdrop:
                continue
            x = layer(x)
        a = torch.softmax(self.pool(x), dim=1)
        return self.head((a * x).sum(1))


def clips(n, rng, batch=6, mels=32, frames=80, species=9):
    for _ in range(n):
        y = (rng.random((batch, species)) < 0.25).astype(np.float32)
        x = rng.standard_normal((batch, mels, frames)).astype(np.float32)
        x[:, :species] += y[:, :, None]
        yield torch.from_numpy(x), torch.from_numpy(y)


def main(steps=12):
    random.seed(2)
    torch.manual_seed(2)
    dev = xm.xla_device()
    net = Tagger().to(dev).train()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-5)
    for i, (x, y) in enumerate(clips(steps, np.random.default_rng(2))):
        x, y = x.to(dev), y.to(dev)
        opt.zero_grad()
        loss = F.binary_cross_entropy_with_logits(net(x), y)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, f"{loss.item():.4f}", "compiled", met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
