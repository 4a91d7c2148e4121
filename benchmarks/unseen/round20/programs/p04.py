"""Handling-time models for a contact centre, one head per skill group.

Every five minutes the dispatcher serves the skill groups; a shared
encoder describes the caller and the head of the group scores the agents on duty.
"""
import random
from collections import deque

import torch
from torch import nn
import torch_xla as tx

AGENTS = {"billing": 6, "technical": 9, "sales": 4, "retention": 5, "claims": 7}
FEATURES = 10
CALLS_PER_SLOT = 8
SLOTS = 30


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh())
        self.heads = nn.ModuleDict({k: nn.Linear(16, n) for k, n in AGENTS.items()})

    def forward(self, skill, callers):
        return self.heads[skill](self.encoder(callers))


class Centre:
    """Synthetic arrivals; the waiting line of a group never runs dry."""

    def __init__(self, seed):
        self.rnd = random.Random(seed)
        self.gen = torch.Generator().manual_seed(seed)
        self.lines = {k: deque() for k in AGENTS}
        self.tables = {k: torch.randn(FEATURES, n, generator=self.gen) for k, n in AGENTS.items()}

    def arrivals(self):
        for line in self.lines.values():
            for _ in range(CALLS_PER_SLOT + self.rnd.randint(0, 12)):
                line.append(torch.randn(FEATURES, generator=self.gen))

    def serve(self, skill):
        line = self.lines[skill]
        callers = torch.stack([line.popleft() for _ in range(CALLS_PER_SLOT)])
        minutes = 4 + (callers @ self.tables[skill]).tanh()
        while len(line) > 20:
            line.popleft()
        return callers, minutes

    def backlog(self, skill):
        return len(self.lines[skill])


def slot_loss(router, centre, device):
    total = torch.zeros((), device=device)
    for skill in sorted(AGENTS, key=centre.backlog, reverse=True):
        callers, minutes = centre.serve(skill)
        predicted = 4 + router(skill, callers.to(device))
        total = total + nn.functional.l1_loss(predicted, minutes.to(device))
    return total / len(AGENTS)


def main():
    torch.manual_seed(2)
    device = tx.device()
    router = Router().to(device)
    optimizer = torch.optim.SGD(router.parameters(), lr=0.05)
    centre = Centre(seed=8)
    smooth = None
    for slot in range(SLOTS):
        centre.arrivals()
        loss = slot_loss(router, centre, device)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tx.sync()
        value = loss.item()
        smooth = value if smooth is None else 0.9 * smooth + 0.1 * value
        if slot % 6 == 5:
            longest = max(AGENTS, key=centre.backlog)
            print(f"slot {slot + 1:2d} error {smooth:.3f} min, longest line: {longest}")


if __name__ == "__main__":
    main()
