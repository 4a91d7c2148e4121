"""Driver-state estimation from four cabin signals, robust to sensor outages.

Sensors fail in the field, so whole modalities are switched off at random while
training.  A switched-off branch is multiplied away instead of being skipped;
the network always computes all branches and keeps one and the same structure.
"""
import logging
import random

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

logger = logging.getLogger("cabin")

MODALITIES = {"gaze": 12, "steering": 6, "pedals": 4, "heart": 8}
STATES = ("alert", "tired", "distracted")


class CabinData:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        g = torch.Generator().manual_seed(77)
        self.patterns = {m: torch.randn(len(STATES), d, generator=g) for m, d in MODALITIES.items()}

    def sample(self, n):
        state = torch.tensor([self.rng.randrange(len(STATES)) for _ in range(n)])
        signals = {m: p[state] + 1.2 * torch.randn(n, p.shape[1]) for m, p in self.patterns.items()}
        return signals, state


class OutageSimulator:
    """Decides per step which sensors deliver.  At least one always does."""

    def __init__(self, rates, seed=0):
        self.rates = rates
        self.rng = random.Random(seed)

    def draw(self):
        while True:
            gates = {m: float(self.rng.random() >= r) for m, r in self.rates.items()}
            if any(gates.values()):
                return gates

    @staticmethod
    def all_on():
        return {m: 1.0 for m in MODALITIES}


class Branch(nn.Module):
    def __init__(self, in_dim, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(in_dim, dim), nn.Tanh(), nn.Linear(dim, dim))

    def forward(self, x):
        return self.net(x)


class CabinNet(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.branches = nn.ModuleDict({m: Branch(d, dim) for m, d in MODALITIES.items()})
        self.fuse = nn.Sequential(nn.Linear(dim * len(MODALITIES), dim), nn.ReLU(), nn.Linear(dim, len(STATES)))

    def forward(self, signals, gates):
        parts = []
        for name, branch in self.branches.items():
            parts.append(branch(signals[name]) * gates[name])
        return self.fuse(torch.cat(parts, dim=-1))


def to_device(batch, device):
    signals, state = batch
    return {m: x.to(device) for m, x in signals.items()}, state.to(device)


class Experiment:
    def __init__(self, steps=64, batch=24, eval_every=16):
        self.steps, self.batch, self.eval_every = steps, batch, eval_every
        self.device = xm.xla_device()
        self.data = CabinData(seed=1)
        self.outages = OutageSimulator(dict(gaze=0.4, steering=0.3, pedals=0.3, heart=0.5), seed=6)
        self.net = CabinNet().to(self.device)
        self.loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.03, momentum=0.9, nesterov=True)
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.985)
        self.held_out = to_device(CabinData(seed=2).sample(96), self.device)

    def train_step(self):
        signals, state = to_device(self.data.sample(self.batch), self.device)
        logits = self.net(signals, self.outages.draw())
        loss = self.loss_fn(logits, state)
        self.opt.zero_grad()
        loss.backward()
        xm.optimizer_step(self.opt, barrier=True)
        self.sched.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self):
        signals, state = self.held_out
        self.net.eval()
        logits = self.net(signals, OutageSimulator.all_on())
        acc = (logits.argmax(-1) == state).float().mean()
        self.net.train()
        return acc.item()

    def run(self):
        for step in range(1, self.steps + 1):
            loss = self.train_step()
            if step % self.eval_every == 0:
                logger.info("step %d lr %.4f loss %.4f accuracy %.3f", step,
                            self.sched.get_last_lr()[0], loss.item(), self.evaluate())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(10)
    Experiment().run()
