"""Federated averaging of a tremor detector over wrist-worn sensors."""
import logging
from collections import OrderedDict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", force=True)
log = logging.getLogger("fedavg")

WINDOW, CHANNELS, BATCH = 32, 3, 16


class Patient:
    """One participant: private windows, private tremor frequency, private amount of data."""

    def __init__(self, pid, rng):
        self.pid = pid
        self.freq = rng.uniform(3.5, 7.5)
        n = int(rng.integers(2, 11)) * BATCH + int(rng.integers(0, BATCH))
        t = np.arange(WINDOW) / 32.0
        label = rng.integers(0, 2, n)
        phase = rng.uniform(0, 2 * np.pi, (n, CHANNELS, 1))
        wave = np.sin(2 * np.pi * self.freq * t + phase)
        x = rng.normal(0, 0.8, (n, CHANNELS, WINDOW)) + label[:, None, None] * wave
        self.x = torch.from_numpy(x.astype(np.float32))
        self.y = torch.from_numpy(label.astype(np.float32))

    @property
    def n_batches(self):
        return len(self.y) // BATCH

    def batches(self, gen):
        order = torch.randperm(len(self.y), generator=gen)
        for k in range(self.n_batches):
            idx = order[k * BATCH:(k + 1) * BATCH]
            yield self.x[idx], self.y[idx]


class TremorNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.conv = nn.Conv1d(CHANNELS, width, 7, stride=2, padding=3)
        self.mid = nn.Conv1d(width, width, 5, stride=2, padding=2)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        h = F.relu(self.conv(x))
        h = F.relu(self.mid(h))
        return self.head(h.amax(-1)).squeeze(-1)


class Server:
    def __init__(self, model, momentum=0.5):
        self.state = OrderedDict((k, v.detach().clone()) for k, v in model.state_dict().items())
        self.velocity = OrderedDict((k, torch.zeros_like(v)) for k, v in self.state.items())
        self.momentum = momentum

    def broadcast(self, model):
        with torch.no_grad():
            for k, v in model.state_dict().items():
                v.copy_(self.state[k])

    def aggregate(self, updates):
        share = torch.tensor([float(n) for n, _ in updates])
        share = (share / share.sum()).to(next(iter(self.state.values())).device)
        for k in self.state:
            stacked = torch.stack([u[k] for _, u in updates])
            mean = torch.tensordot(share, stacked, dims=1)
            self.velocity[k] = self.velocity[k] * self.momentum + mean
            self.state[k] = self.state[k] + self.velocity[k]
        torch_xla.sync()


class Client:
    def __init__(self, device, lr):
        self.device = device
        self.model = TremorNet().to(device)
        self.lr = lr
        self.gen = torch.Generator().manual_seed(99)

    def update(self, server, patient):
        server.broadcast(self.model)
        self.model.train()
        opt = torch.optim.SGD(self.model.parameters(), lr=self.lr, weight_decay=1e-4)
        total = torch.zeros((), device=self.device)
        for x, y in patient.batches(self.gen):
            x, y = x.to(self.device), y.to(self.device)
            opt.zero_grad()
            loss = F.binary_cross_entropy_with_logits(self.model(x), y)
            loss.backward()
            opt.step()
            total += loss.detach()
        delta = OrderedDict((k, v.detach() - server.state[k]) for k, v in self.model.state_dict().items())
        opt.zero_grad()
        torch_xla.sync()
        return delta, total


def probe(server, model, patients, device):
    server.broadcast(model)
    model.eval()
    with torch.no_grad():
        x = torch.cat([p.x[:BATCH] for p in patients]).to(device)
        y = torch.cat([p.y[:BATCH] for p in patients]).to(device)
        return ((model(x) > 0) == (y > 0.5)).float().mean().item()


def main(rounds=12, cohort=4, n_patients=24):
    torch.manual_seed(1)
    rng = np.random.default_rng(8)
    device = torch_xla.device()
    patients = [Patient(i, rng) for i in range(n_patients)]
    held_out, pool = patients[:4], patients[4:]
    client = Client(device, lr=0.15)
    server = Server(client.model)
    torch_xla.sync()

    for r in range(1, rounds + 1):
        chosen = rng.choice(len(pool), cohort, replace=False)
        updates, losses = [], []
        for c in chosen:
            patient = pool[c]
            delta, total = client.update(server, patient)
            updates.append((patient.n_batches, delta))
            losses.append((total, patient.n_batches))
        server.aggregate(updates)
        if r % 4 == 0:
            mean = sum(t.item() / n for t, n in losses) / len(losses)
            acc = probe(server, client.model, held_out, device)
            log.info("round %2d  local loss %.4f  held-out accuracy %.3f", r, mean, acc)


if __name__ == "__main__":
    main()
