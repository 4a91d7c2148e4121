"""One-step-ahead forecaster for pump telemetry; the residual is the anomaly score.

Recordings are long, so each is read in windows and the recurrent state is carried
from one window to the next (truncated BPTT). All lanes of a batch start a new
recording at the same time.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SENSORS = 6
HIDDEN = 16
WINDOW = 4
LANES = 4
WINDOWS_PER_RECORDING = 3


class Recordings:
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        while True:
            n = WINDOW * WINDOWS_PER_RECORDING + 1
            t = np.arange(n)[None, :, None]
            phase = self.rng.uniform(0, 6.28, (LANES, 1, SENSORS))
            freq = self.rng.uniform(0.1, 0.6, (LANES, 1, SENSORS))
            x = np.sin(freq * t + phase) + 0.05 * self.rng.standard_normal((LANES, n, SENSORS))
            x = torch.from_numpy(x.astype(np.float32))
            for w in range(WINDOWS_PER_RECORDING):
                lo = w * WINDOW
                yield w == 0, x[:, lo : lo + WINDOW], x[:, lo + 1 : lo + WINDOW + 1]


class GatedCell(nn.Module):
    """GRU cell with layer-normalised pre-activations."""

    def __init__(self, inp, hid):
        super().__init__()
        self.x = nn.Linear(inp, 3 * hid)
        self.h = nn.Linear(hid, 3 * hid, bias=False)
        self.norm = nn.LayerNorm(hid)

    def forward(self, x, h):
        xr, xz, xn = self.x(x).chunk(3, -1)
        hr, hz, hn = self.h(self.norm(h)).chunk(3, -1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        return (1 - z) * torch.tanh(xn + r * hn) + z * h


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(SENSORS, HIDDEN)
        self.cell = GatedCell(HIDDEN, HIDDEN)
        self.mean = nn.Linear(HIDDEN, SENSORS)
        self.log_scale = nn.Linear(HIDDEN, SENSORS)
        self.start = nn.Parameter(0.1 * torch.randn(HIDDEN))

    def forward(self, x, state=None):
        h = self.start.expand(x.shape[0], -1) if state is None else state
        outs = []
        for step in F.silu(self.inp(x)).unbind(1):
            h = self.cell(step, h)
            outs.append(h)
        y = torch.stack(outs, 1)
        return self.mean(y), self.log_scale(y).clamp(-5, 3), h


def laplace_nll(y, mean, log_scale):
    return ((y - mean).abs() * torch.exp(-log_scale) + log_scale).mean()


def main(updates=12):
    torch.manual_seed(1)
    device = torch_xla.device()
    net = Forecaster().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-3)

    history, state = [], None
    for it, (fresh, x, y) in zip(range(updates), Recordings()):
        if fresh:
            state = None
        mean, log_scale, state = net(x.to(device), state)
        state = state.detach()
        loss = laplace_nll(y.to(device), mean, log_scale)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        history.append(loss.detach())
    print(" ".join(f"{l.item():.4f}" for l in history))


if __name__ == "__main__":
    main()
