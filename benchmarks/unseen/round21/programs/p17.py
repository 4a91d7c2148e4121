"""Contrastive pre-training of a sensor-window encoder with keys from earlier batches as negatives."""
import math
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

WINDOW = 16
CHANNELS = 3
DIM = 16
BATCH_SIZE = 8
STEPS = 32
BANK_BATCHES = 64
TEMPERATURE = 0.2
MOMENTUM = 0.9


class WindowSource:
    """Two noisy views of the same random oscillation."""

    def __init__(self, seed=13):
        self.g = torch.Generator().manual_seed(seed)

    def view(self, base):
        gain = 1.0 + 0.1 * torch.randn(base.size(0), 1, 1, generator=self.g)
        return gain * base + 0.1 * torch.randn(base.shape, generator=self.g)

    def next(self):
        t = torch.arange(WINDOW) * (2 * math.pi / WINDOW)
        freq = 1 + 3 * torch.rand(BATCH_SIZE, CHANNELS, 1, generator=self.g)
        phase = 6 * torch.rand(BATCH_SIZE, CHANNELS, 1, generator=self.g)
        base = torch.sin(freq * t + phase)
        return self.view(base), self.view(base)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(),
            nn.Linear(WINDOW * CHANNELS, 32),
            nn.ReLU(),
            nn.Linear(32, DIM),
        )

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class KeyBank:
    def __init__(self, max_batches):
        self.batches = deque(maxlen=max_batches)

    def push(self, keys):
        self.batches.append(keys.detach())

    def negatives(self):
        return torch.cat(list(self.batches), dim=0)

    def __len__(self):
        return len(self.batches)


def info_nce(query, key, bank):
    positive = (query * key).sum(dim=-1, keepdim=True)
    logits = positive
    if len(bank):
        logits = torch.cat([positive, query @ bank.negatives().t()], dim=1)
    labels = torch.zeros(query.size(0), dtype=torch.long, device=query.device)
    return F.cross_entropy(logits / TEMPERATURE, labels)


@torch.no_grad()
def momentum_update(slow, fast):
    for p_slow, p_fast in zip(slow.parameters(), fast.parameters()):
        p_slow.mul_(MOMENTUM).add_(p_fast, alpha=1 - MOMENTUM)


def main():
    torch.manual_seed(5)
    device = torch_xla.device()
    encoder, key_encoder = Encoder().to(device), Encoder().to(device)
    key_encoder.load_state_dict(encoder.state_dict())
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05, momentum=0.9)
    bank = KeyBank(BANK_BATCHES)
    source = WindowSource()

    for step in range(1, STEPS + 1):
        first, second = (v.to(device) for v in source.next())
        with torch.no_grad():
            keys = key_encoder(second)
        optimizer.zero_grad()
        loss = info_nce(encoder(first), keys, bank)
        loss.backward()
        optimizer.step()
        momentum_update(key_encoder, encoder)
        bank.push(keys)
        torch_xla.sync()
        if step % 8 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}  bank {len(bank) * BATCH_SIZE}")


if __name__ == "__main__":
    main()
