"""WaveNet-style next-sample model for seismograms, mu-law classes."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CLASSES = 32


class ResidualLayer(nn.Module):
    def __init__(self, channels, skip, dilation):
        super().__init__()
        self.pad = dilation
        self.filter_gate = nn.Conv1d(channels, 2 * channels, 2, dilation=dilation)
        self.res = nn.Conv1d(channels, channels, 1)
        self.skip = nn.Conv1d(channels, skip, 1)

    def forward(self, x):
        h = self.filter_gate(F.pad(x, (self.pad, 0)))
        a, b = h.chunk(2, dim=1)
        z = torch.tanh(a) * torch.sigmoid(b)
        return (x + self.res(z)) * math.sqrt(0.5), self.skip(z)


class SeismoNet(nn.Module):
    def __init__(self, channels=12, skip=16, dilations=(1, 2, 4)):
        super().__init__()
        self.embed = nn.Embedding(CLASSES, channels)
        self.layers = nn.ModuleList(ResidualLayer(channels, skip, d) for d in dilations)
        self.head1 = nn.Conv1d(skip, skip, 1)
        self.head2 = nn.Conv1d(skip, CLASSES, 1)

    def forward(self, tokens):
        x = self.embed(tokens).transpose(1, 2)
        skips = []
        for layer in self.layers:
            x, s = layer(x)
            skips.append(s)
        y = torch.stack(skips).sum(0) / math.sqrt(len(skips))
        y = self.head2(F.relu(self.head1(F.relu(y))))
        return y.transpose(1, 2)


def masked_nll(logits, target, mask):
    logp = F.log_softmax(logits, dim=-1)
    nll = -logp.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return (nll * mask).sum() / mask.sum()


class AdamWLite:
    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.params = list(params)
        self.lr, self.betas, self.eps, self.wd = lr, betas, eps, weight_decay
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]
        self.t = 0

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        c1, c2 = 1 - b1**self.t, 1 - b2**self.t
        for p, m, v in zip(self.params, self.m, self.v):
            g = p.grad
            if g is None:
                continue
            p.mul_(1 - self.lr * self.wd)
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            p.sub_(self.lr * (m / c1) / ((v / c2).sqrt() + self.eps))


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
    return model, AdamWLite(model.parameters(), lr=2e-3)


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
