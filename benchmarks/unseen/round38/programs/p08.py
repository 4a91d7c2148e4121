"""Remaining useful life regression on pump sessions: recurrent model, truncated backprop."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 41
SENSORS = 5
HIDDEN = 20
BATCH = 6
CHUNK = 4
CHUNK_RANGE = (2, 13)
SESSIONS = 30


class RecurrentCell(nn.Module):
    """Minimal gated unit."""

    def __init__(self, d_in, d_hidden):
        super().__init__()
        self.forget = nn.Linear(d_in + d_hidden, d_hidden)
        self.cand = nn.Linear(d_in + d_hidden, d_hidden)

    def forward(self, x, h):
        f = torch.sigmoid(self.forget(torch.cat([x, h], dim=-1)))
        c = torch.tanh(self.cand(torch.cat([x, f * h], dim=-1)))
        return (1 - f) * h + f * c


class LifeModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = RecurrentCell(SENSORS, HIDDEN)
        self.out = nn.Linear(HIDDEN, 1)

    def initial_state(self, batch, device):
        return torch.zeros(batch, HIDDEN).to(device)

    def forward(self, chunk, h):
        outs = []
        for x in chunk.unbind(dim=1):
            h = self.cell(x, h)
            outs.append(h)
        return self.out(torch.stack(outs, dim=1)).squeeze(-1), h


class SessionStream:
    """Sessions of BATCH pumps run side by side, cut into chunks of CHUNK readings."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.gen = torch.Generator().manual_seed(seed)
        self.mix = torch.randn(3, SENSORS, generator=self.gen)

    def session(self):
        n = self.rng.randint(*CHUNK_RANGE) * CHUNK
        wear_rate = 0.5 + torch.rand(BATCH, 1, generator=self.gen)
        t = torch.linspace(0, 1, n)[None]
        wear = (t * wear_rate).clamp(max=1.0)
        vibration = torch.sin(2 * math.pi * 6 * t + 3 * wear)
        heat = wear.square() + 0.1 * torch.randn(BATCH, n, generator=self.gen)
        signals = torch.stack([wear, vibration, heat], dim=-1) @ self.mix
        signals = signals + 0.1 * torch.randn(signals.shape, generator=self.gen)
        return signals, 1.0 - wear

    def __iter__(self):
        while True:
            x, y = self.session()
            yield list(zip(x.split(CHUNK, dim=1), y.split(CHUNK, dim=1)))


class Trainer:
    def __init__(self, model, device, lr=0.05):
        self.model = model
        self.device = device
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.total_chunks = 0

    def train_chunk(self, x, y, h):
        pred, h = self.model(x, h)
        loss = F.smooth_l1_loss(pred, y, beta=0.1)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach(), h.detach()

    def train_session(self, chunks):
        h = self.model.initial_state(BATCH, self.device)
        last = None
        for x, y in chunks:
            last, h = self.train_chunk(x.to(self.device), y.to(self.device), h)
            self.total_chunks += 1
        torch_xla.sync()
        return last


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    model = LifeModel().to(device)
    trainer = Trainer(model, device)
    stream = iter(SessionStream(SEED))
    history = []

    for index in range(SESSIONS):
        loss = trainer.train_session(next(stream))
        history.append(loss.item())
        if (index + 1) % 5 == 0:
            recent = sum(history[-5:]) / 5
            print(f"session {index + 1:3d} chunks {trainer.total_chunks:4d} loss {recent:.4f}")


if __name__ == "__main__":
    main()
