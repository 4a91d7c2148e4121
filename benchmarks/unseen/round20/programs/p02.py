"""Harmonise a soprano line: predict alto, tenor and bass, beat by beat.

A recurrent cell reads the soprano pitch of the beat together with the three lower
pitches of the beat before.
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

PITCHES = 24
BEATS = 6
VOICES = 3
BATCH = 6
STEPS = 30
WIDTH = 20


def chorales(gen):
    """Random-walk sopranos with parallel-motion lower voices."""
    moves = torch.randint(-2, 3, (BATCH, BEATS), generator=gen)
    soprano = (16 + moves.cumsum(1)).clamp(10, PITCHES - 1)
    offsets = torch.tensor([3, 6, 10])
    wobble = torch.randint(0, 2, (BATCH, BEATS, VOICES), generator=gen)
    lower = (soprano.unsqueeze(-1) - offsets + wobble).clamp(0, PITCHES - 1)
    return soprano, lower


class Harmoniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.pitch = nn.Embedding(PITCHES, 8)
        self.cell = nn.RNNCell(8 + VOICES, WIDTH)
        self.voices = nn.Linear(WIDTH, VOICES * PITCHES)

    def beat(self, soprano, below, hidden):
        features = torch.cat([soprano, below / PITCHES], dim=1)
        hidden = self.cell(features, hidden)
        return self.voices(hidden).view(-1, VOICES, PITCHES), hidden

    def forward(self, soprano, lower, p_own):
        hidden = torch.zeros(soprano.shape[0], WIDTH, device=soprano.device)
        below = torch.zeros_like(lower[:, 0])
        melody = self.pitch(soprano)
        outputs = []
        for t in range(BEATS):
            logits, hidden = self.beat(melody[:, t], below, hidden)
            outputs.append(logits)
            if random.random() < p_own:
                below = logits.argmax(-1)
            else:
                below = lower[:, t]
        return torch.stack(outputs, dim=1)


def own_probability(step):
    return 0.2 + 0.5 * step / STEPS


def main():
    random.seed(1685)
    torch.manual_seed(1685)
    gen = torch.Generator().manual_seed(1750)
    device = torch_xla.device()
    model = Harmoniser().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for step in range(STEPS):
        soprano, lower = chorales(gen)
        soprano, lower = soprano.to(device), lower.to(device)
        logits = model(soprano, lower, own_probability(step))
        loss = F.cross_entropy(logits.flatten(0, 2), lower.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if step % 6 == 5:
            print(f"step {step + 1:2d}  p_own {own_probability(step):.2f}  nll {loss.item():.3f}")


if __name__ == "__main__":
    main()
