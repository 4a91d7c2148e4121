"""Handwriting synthesis: a small recurrent mixture model over pen offsets."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

WRITERS = 4
TRACK = 160
WINDOW = 12
HIDDEN = 24
MIXTURES = 3
STEPS = 36


def synth_tracks(seed):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 14 * math.pi, TRACK)
    rows = []
    for _ in range(WRITERS):
        slant = rng.uniform(0.1, 0.6)
        size = rng.uniform(0.6, 1.4)
        x = 0.2 * t + size * np.sin(t)
        y = size * np.cos(t) + slant * np.sin(2 * t)
        pen = (np.sin(3 * t) > 0.9).astype(np.float64)
        dx = np.diff(x, prepend=x[0])
        dy = np.diff(y, prepend=y[0])
        rows.append(np.stack([dx, dy, pen], axis=1))
    return torch.tensor(np.stack(rows), dtype=torch.float32)


class PenModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(3, HIDDEN)
        self.conv = nn.Conv1d(HIDDEN, HIDDEN, 3)
        self.head = nn.Linear(HIDDEN, MIXTURES * 5 + 1)

    def forward(self, x):
        h = torch.tanh(self.inp(x)).transpose(1, 2)
        h = torch.relu(self.conv(F.pad(h, (2, 0))))
        return self.head(h.transpose(1, 2))


def mixture_nll(out, target):
    pi, mx, my, sx, sy = out[..., :-1].chunk(5, dim=-1)
    dx = (target[..., 0:1] - mx) * torch.exp(-sx)
    dy = (target[..., 1:2] - my) * torch.exp(-sy)
    logp = -0.5 * (dx * dx + dy * dy) - sx - sy + torch.log_softmax(pi, dim=-1)
    pen = F.binary_cross_entropy_with_logits(out[..., -1], target[..., 2])
    return pen - torch.logsumexp(logp, dim=-1).mean()


def main():
    torch.manual_seed(5)
    rng = np.random.default_rng(11)
    device = torch_xla.device()
    tracks = synth_tracks(3).to(device)
    model = PenModel().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loss = None
    for step in range(STEPS):
        start = int(rng.integers(0, TRACK - WINDOW - 1))
        piece = tracks[:, start:start + WINDOW + 1]
        opt.zero_grad()
        loss = mixture_nll(model(piece[:, :-1]), piece[:, 1:])
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 12 == 11:
            print(f"step {step + 1} nll {loss.item():.3f}")


if __name__ == "__main__":
    main()
