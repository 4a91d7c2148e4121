"""Truncated-BPTT LSTM for hourly electricity load; the stream is cut into windows."""
import math

import torch
import torch.nn as nn
import torch_xla


class LoadStream:
    """Windows of one long series per substation, in order."""

    def __init__(self, stations, hours, window):
        t = torch.arange(hours).float()
        phase = torch.rand(stations, 1) * 6
        base = torch.sin(t * 2 * math.pi / 24 + phase) + 0.3 * torch.sin(t * 2 * math.pi / 168)
        self.data = torch.stack([base, base.roll(24, 1), (t % 24 / 24).expand_as(base)], -1)
        self.window = window

    def __iter__(self):
        for s in range(0, self.data.shape[1] - self.window, self.window):
            x = self.data[:, s : s + self.window]
            y = self.data[:, s + 1 : s + self.window + 1, 0]
            yield x.contiguous(), y.contiguous()


class LoadModel(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(3, hidden), nn.LSTMCell(hidden, hidden)])
        self.head = nn.Linear(hidden, 2)
        self.hidden = hidden

    def fresh(self, x):
        z = x.new_zeros(x.shape[0], self.hidden)
        return [(z, z) for _ in self.cells]

    def forward(self, x, state=None):
        if state is None:
            state = self.fresh(x)
        outs = []
        for t in range(x.shape[1]):
            h = x[:, t]
            nxt = []
            for cell, s in zip(self.cells, state):
                h, c = cell(h, s)
                nxt.append((h, c))
            state = nxt
            outs.append(self.head(h))
        return torch.stack(outs, 1), state


def gaussian_nll(out, y):
    mean, logvar = out[..., 0], out[..., 1].clamp(-6, 4)
    return 0.5 * (logvar + (y - mean) ** 2 * torch.exp(-logvar)).mean()


def run(epochs=2, hidden=12, window=6):
    torch.manual_seed(2)
    device = torch_xla.device()
    model = LoadModel(hidden).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    stream = LoadStream(stations=4, hours=20, window=window)
    torch_xla.sync()
    for epoch in range(epochs):
        state = None
        total = torch.zeros((), device=device)
        torch_xla.sync()
        for x, y in stream:
            out, state = model(x.to(device), state)
            loss = gaussian_nll(out, y.to(device))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
            state = [(h.detach(), c.detach()) for h, c in state]
            total = total + loss.detach()
            torch_xla.sync()
        print("epoch", epoch, "nll", total.item())


if __name__ == "__main__":
    run()
