"""Online anomaly scoring on machine vibration: stateful recurrent autoencoder, truncated BPTT."""
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CHANNELS, CHUNK, STREAMS = 4, 4, 8


class VibrationFeed:
    """Continuous synthetic accelerometer streams cut into consecutive chunks."""

    def __init__(self, seed=1):
        self.g = torch.Generator().manual_seed(seed)
        self.phase = torch.rand(STREAMS, CHANNELS, generator=self.g) * 6.28
        self.freq = 0.2 + torch.rand(STREAMS, CHANNELS, generator=self.g)
        self.t = 0

    def __next__(self):
        t = torch.arange(self.t, self.t + CHUNK).float()
        self.t += CHUNK
        x = torch.sin(self.freq[..., None] * t + self.phase[..., None])
        return (x + 0.1 * torch.randn(x.shape, generator=self.g)).permute(2, 0, 1).contiguous()

    def __iter__(self):
        return self


class MGU(nn.Module):
    """Minimal gated unit."""

    def __init__(self, nin, nh):
        super().__init__()
        self.gate = nn.Linear(nin + nh, nh)
        self.cand = nn.Linear(nin + nh, nh)

    def forward(self, x, h):
        f = torch.sigmoid(self.gate(torch.cat([x, h], -1)))
        c = torch.tanh(self.cand(torch.cat([x, f * h], -1)))
        return (1 - f) * h + f * c


class Predictor(nn.Module):
    def __init__(self, nh=12):
        super().__init__()
        self.nh = nh
        self.cell = MGU(CHANNELS, nh)
        self.out = nn.Linear(nh, CHANNELS)
        self.carry = None

    def forward(self, chunk):
        h = self.carry
        if h is None:
            h = chunk.new_zeros(chunk.shape[1], self.nh)
        preds = []
        for x in chunk:
            preds.append(self.out(h))
            h = self.cell(x, h)
        self.carry = h.detach()
        return torch.stack(preds)


class Recorder:
    def __init__(self, keep=50):
        self.err = deque(maxlen=keep)

    def push(self, e):
        self.err.append(e)

    def summary(self):
        e = torch.stack(list(self.err)).cpu()
        return f"mean {e.mean():.4f} max {e.max():.4f}"


def main(chunks=40):
    torch.manual_seed(8)
    dev = xm.xla_device()
    model = Predictor().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    rec = Recorder()
    for p in model.parameters():
        p.register_hook(lambda g: g.clamp(-1, 1))
    torch_xla.sync()
    for i, chunk in zip(range(chunks), VibrationFeed()):
        chunk = chunk.to(dev)
        loss = F.smooth_l1_loss(model(chunk), chunk, beta=0.5)
        opt.zero_grad()
        loss.backward()
        opt.step()
        rec.push(loss.detach())
        torch_xla.sync()
        if i % 20 == 19:
            print(i, rec.summary())


if __name__ == "__main__":
    main()
