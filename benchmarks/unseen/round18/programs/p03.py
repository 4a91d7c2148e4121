# Continual learning on a stream of accelerometer windows.
#
# The stream goes through four activities regimes (domains) one after another.
# A small memory of past mini-batches stays on the accelerator, and every update
# rehearses a few of them next to the incoming batch (experience replay).
import random

import numpy as np
import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm

WINDOW, CHANNELS, CLASSES = 32, 3, 5
BATCH = 16
STEPS_PER_REGIME = 16
REGIMES = 4
# how much a rehearsed batch counts, by the regime it was recorded in
REHEARSAL_WEIGHT = (0.75, 0.6, 0.5, 0.45)


class StreamSimulator:
    """Windows of a wearable sensor, with a regime dependent offset and gain."""

    def __init__(self, seed):
        self.rs = np.random.RandomState(seed)
        self.protos = self.rs.randn(CLASSES, CHANNELS, WINDOW).astype("float32")

    def draw(self, regime, n=BATCH):
        y = self.rs.randint(0, CLASSES, size=n)
        gain = 1.0 + 0.3 * regime
        x = gain * self.protos[y] + 0.2 * regime
        x = x + 1.5 * self.rs.randn(n, CHANNELS, WINDOW)
        return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


class EpisodicMemory:
    """Reservoir of whole mini-batches, kept on the device."""

    def __init__(self, slots, seed=0):
        self.slots = slots
        self.chunks = []
        self.seen = 0
        self.rng = random.Random(seed)

    def offer(self, x, y, regime):
        self.seen += 1
        if len(self.chunks) < self.slots:
            self.chunks.append((x, y, regime))
            return
        j = self.rng.randrange(self.seen)
        if j < self.slots:
            self.chunks[j] = (x, y, regime)

    def recall(self, k):
        return self.rng.sample(self.chunks, k)

    def __len__(self):
        return len(self.chunks)


class HARNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(), nn.Linear(CHANNELS * WINDOW, width), nn.Tanh())
        self.out = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.out(self.body(x))


class Learner:
    def __init__(self, device, replay=4, slots=10):
        self.device = device
        self.net = HARNet().to(device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.08, momentum=0.9)
        self.memory = EpisodicMemory(slots, seed=11)
        self.replay = replay
        self.ce = nn.CrossEntropyLoss()

    def observe(self, x, y, regime):
        """One update on the new batch and, once there are enough, on old ones."""
        self.net.train()
        self.opt.zero_grad()
        loss = self.ce(self.net(x), y)
        if len(self.memory) >= self.replay:
            rehearsal = 0.0
            for mx, my, origin in self.memory.recall(self.replay):
                rehearsal = rehearsal + REHEARSAL_WEIGHT[origin] * self.ce(self.net(mx), my)
            loss = loss + rehearsal / self.replay
        loss.backward()
        self.opt.step()
        xm.mark_step()
        self.memory.offer(x, y, regime)
        return loss.detach()

    @torch.no_grad()
    def accuracy(self, sets):
        self.net.eval()
        accs = []
        for x, y in sets:
            hit = (self.net(x).argmax(-1) == y).float().mean()
            xm.mark_step()
            accs.append(hit)
        return [a.item() for a in accs]


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    sim = StreamSimulator(seed=1)
    held_out = []
    for r in range(REGIMES):
        x, y = sim.draw(r, n=64)
        held_out.append((x.to(device), y.to(device)))
    learner = Learner(device)

    matrix = []
    for regime in range(REGIMES):
        losses = []
        for step in range(STEPS_PER_REGIME):
            x, y = sim.draw(regime)
            losses.append(learner.observe(x.to(device), y.to(device), regime))
        mean_loss = sum(v.item() for v in losses) / len(losses)
        row = learner.accuracy(held_out[:regime + 1])
        matrix.append(row)
        print(f"regime {regime}: loss {mean_loss:.3f}  acc " + " ".join(f"{a:.2f}" for a in row))

    forgetting = [max(m[r] for m in matrix[r:]) - matrix[-1][r] for r in range(REGIMES - 1)]
    print("forgetting:", " ".join(f"{f:.3f}" for f in forgetting))


if __name__ == "__main__":
    main()
