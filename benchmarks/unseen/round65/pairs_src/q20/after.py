"""WaveNet-style next-sample model for seismograms, mu-law classes."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CLASSES = 32


class CausalConv1d(nn.Conv1d):
    def forward(self, x):
        left = self.dilation[0] * (self.kernel_size[0] - 1)
        return super().forward(F.pad(x, (left, 0)))


class ResidualLayer(nn.Module):
    def __init__(self, channels, skip, dilation):
        super().__init__()
        self.skip = nn.Conv1d(channels, skip, 1)
        self.res = nn.Conv1d(channels, channels, 1)
        self.filter_gate = CausalConv1d(channels, 2 * channels, 2, dilation=dilation)

    def forward(self, x):
        a, b = self.filter_gate(x).split(x.shape[1], dim=1)
        z = torch.sigmoid(b) * torch.tanh(a)
        return math.sqrt(0.5) * (self.res(z) + x), self.skip(z)


class SeismoNet(nn.Module):
    def __init__(self, channels=12, skip=16, dilations=(1, 2, 4)):
        super().__init__()
        self.embed = nn.Embedding(CLASSES, channels)
        self.layers = nn.ModuleList(ResidualLayer(channels, skip, d) for d in dilations)
        self.head = nn.Sequential(
            nn.ReLU(), nn.Conv1d(skip, skip, 1),
            nn.ReLU(), nn.Conv1d(skip, CLASSES, 1),
        )

    def forward(self, tokens):
        x = self.embed(tokens).transpose(1, 2)
        total = 0
        for layer in self.layers:
            x, s = layer(x)
            total = total + s
        y = self.head(total * len(self.layers) ** -0.5)
        return y.transpose(1, 2)


def masked_nll(logits, target, mask):
    nll = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    mask = mask.flatten()
    return torch.dot(nll, mask) / mask.sum()


def mu_law(x, classes=CLASSES):
    mu = classes - 1
    y = np.sign(x) * np.log1p(mu * np.abs(x)) / np.log1p(mu)
    return ((y + 1) / 2 * mu + 0.5).astype(np.int64)


def traces(n, batch, length, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(length + 1)
    for _ in range(n):
        f = rng.uniform(0.02, 0.2, (batch, 1))
        onset = rng.integers(0, length // 2, (batch, 1))
        x = np.sin(2 * np.pi * f * (t - onset)) * np.exp(-0.05 * np.abs(t - onset)) * (t > onset)
        q = mu_law(np.clip(x + 0.02 * rng.normal(size=x.shape), -1, 1))
        mask = (t[1:] < rng.integers(length // 2, length + 1, (batch, 1))).astype(np.float32)
        yield torch.from_numpy(q[:, :-1]), torch.from_numpy(q[:, 1:]), torch.from_numpy(mask)


def build(device):
    model = SeismoNet().to(device)
    return model, torch.optim.AdamW(model.parameters(), lr=2e-3)


def train_step(model, opt, x, y, mask):
    loss = masked_nll(model(x), y, mask)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


def main(steps=5):
    torch.manual_seed(0)
    device = torch_xla.device()
    model, opt = build(device)
    torch_xla.sync()
    for i, batch in enumerate(traces(steps, 4, 48)):
        loss = train_step(model, opt, *(b.to(device) for b in batch))
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main()
