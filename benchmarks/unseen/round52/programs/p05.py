"""Federated averaging, simulated on one device.

A few phones hold accelerometer windows of different users.  Every round each
client starts from the server weights, runs one local epoch, and the server
averages the results weighted by the number of windows.
"""
import copy
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

N_CLASSES = 4
WINDOW = 32
LOCAL_BATCH = 16


@dataclass
class Config:
    rounds: int = 5
    client_sizes: tuple = (56, 40, 56)
    test_size: int = 80
    local_lr: float = 0.05
    momentum: float = 0.9
    prox_mu: float = 0.01
    seed: int = 21
    history: list = field(default_factory=list)


def windows_for_user(n, rng):
    labels = rng.integers(0, N_CLASSES, size=n)
    phase = rng.uniform(0, 2 * np.pi, size=(n, 1, 3))
    gain = rng.uniform(0.8, 1.2, size=(1, 1, 3))
    freq = 1.0 + 1.5 * labels[:, None, None] + rng.normal(scale=0.1, size=(n, 1, 3))
    t = np.linspace(0, 1, WINDOW)[None, :, None]
    x = gain * np.sin(2 * np.pi * freq * t + phase) + rng.normal(scale=0.2, size=(n, WINDOW, 3))
    x = x.transpose(0, 2, 1).astype(np.float32)
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(labels))


class HarNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(3, 16, 5, padding=2)
        self.norm1 = nn.GroupNorm(4, 16)
        self.conv2 = nn.Conv1d(16, 24, 5, padding=2, stride=2)
        self.norm2 = nn.GroupNorm(4, 24)
        self.out = nn.Linear(24, N_CLASSES)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        return self.out(x.mean(-1))


class Client:
    def __init__(self, dataset, cfg, seed):
        self.n = len(dataset)
        self.cfg = cfg
        g = torch.Generator().manual_seed(seed)
        self.loader = DataLoader(dataset, batch_size=LOCAL_BATCH, shuffle=True, generator=g)

    def local_epoch(self, model, anchor, device):
        model.load_state_dict(anchor)
        model.train()
        opt = torch.optim.SGD(model.parameters(), lr=self.cfg.local_lr, momentum=self.cfg.momentum)
        total = torch.zeros((), device=device)
        for x, y in self.loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            prox = sum((p - anchor[k]).square().sum() for k, p in model.named_parameters())
            opt.zero_grad()
            (loss + 0.5 * self.cfg.prox_mu * prox).backward()
            opt.step()
            total = total + loss.detach() * len(y)
            torch_xla.sync()
        update = OrderedDict((k, v.detach().clone()) for k, v in model.state_dict().items())
        return update, total / self.n


class Server:
    def __init__(self, model, cfg, test_set):
        self.model = model
        self.cfg = cfg
        self.test_loader = DataLoader(test_set, batch_size=32)

    def snapshot(self):
        return OrderedDict((k, v.detach().clone()) for k, v in self.model.state_dict().items())

    def aggregate(self, updates, sizes):
        total = float(sum(sizes))
        merged = OrderedDict()
        for key in updates[0]:
            merged[key] = sum(u[key] * (n / total) for u, n in zip(updates, sizes))
        self.model.load_state_dict(merged)

    @torch.no_grad()
    def evaluate(self, device):
        self.model.eval()
        correct, seen = 0, 0
        for x, y in self.test_loader:
            pred = self.model(x.to(device)).argmax(1)
            correct += (pred == y.to(device)).sum().item()
            seen += len(y)
        return correct / seen


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    device = torch_xla.device()

    clients = [Client(windows_for_user(n, rng), cfg, seed=i) for i, n in enumerate(cfg.client_sizes)]
    server = Server(HarNet().to(device), cfg, windows_for_user(cfg.test_size, rng))
    worker = copy.deepcopy(server.model)

    for rnd in range(cfg.rounds):
        anchor = server.snapshot()
        torch_xla.sync()
        updates, losses = [], []
        for client in clients:
            update, loss = client.local_epoch(worker, anchor, device)
            updates.append(update)
            losses.append(loss)
            torch_xla.sync()
        server.aggregate(updates, [c.n for c in clients])
        torch_xla.sync()
        acc = server.evaluate(device)
        cfg.history.append(acc)
        mean_loss = float(np.mean([l.item() for l in losses]))
        print(f"round {rnd + 1}: local loss {mean_loss:.4f}  server accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
