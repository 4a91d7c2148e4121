"""Federated learning with differential privacy on wearable-sensor windows (noisy clipped client updates, FedAvg-M server)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.func import functional_call

CHANNELS, WINDOW, WINDOWS, ACTIVITIES = 3, 24, 96, 5
CLIENTS, PER_ROUND, ROUNDS = 9, 3, 12
SAMPLE_RATE, CLIP, NOISE = 0.3, 1.0, 0.03


def make_clients(seed):
    """Every client is one wearer: own gain, own tempo, the same number of windows."""
    rng = np.random.default_rng(seed)
    t = np.arange(WINDOW)
    data = []
    for _ in range(CLIENTS):
        gain, tempo = rng.uniform(0.7, 1.4), rng.uniform(0.85, 1.15)
        y = rng.integers(0, ACTIVITIES, WINDOWS)
        freq = (y[:, None] + 1) * 0.11 * tempo
        base = np.sin(freq * t[None, :] + rng.uniform(0, 6, (WINDOWS, 1)))
        x = np.stack([gain * base, np.roll(base, 3, 1), base ** 2], 1)
        x = x + rng.normal(0, 0.3, x.shape)
        data.append((x.astype(np.float32), y.astype(np.int64)))
    return data


class HarNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.c1 = nn.Conv1d(CHANNELS, width, 5, stride=2, padding=2)
        self.n1 = nn.GroupNorm(3, width)
        self.c2 = nn.Conv1d(width, width, 3, padding=1)
        self.out = nn.Linear(width, ACTIVITIES)

    def forward(self, x):
        h = F.relu(self.n1(self.c1(x)))
        h = F.relu(self.c2(h))
        return self.out(h.mean(-1))


class DPClientTrainer:
    def __init__(self, model, device, seed):
        self.model, self.device = model, device
        self.rng = np.random.default_rng(seed)

    def sample(self, x, y):
        take = self.rng.random(len(y)) < SAMPLE_RATE
        return torch.from_numpy(x[take]), torch.from_numpy(y[take])

    def clipped_gradient(self, params, x, y, expected):
        leaves = {k: p.detach().requires_grad_() for k, p in params.items()}
        logits = functional_call(self.model, leaves, (x,))
        loss = F.cross_entropy(logits, y, reduction="sum") / expected
        grads = torch.autograd.grad(loss, list(leaves.values()))
        norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
        factor = (CLIP / (norm + 1e-6)).clamp(max=1.0)
        return {k: g * factor for k, g in zip(leaves, grads)}

    def step(self, params, client, lr):
        x, y = self.sample(*client)
        x, y = x.to(self.device), y.to(self.device)
        grads = self.clipped_gradient(params, x, y, expected=SAMPLE_RATE * len(client[1]))
        out = {}
        for k, p in params.items():
            noise = torch.randn_like(p) * (NOISE * CLIP)
            out[k] = p - lr * (grads[k] + noise)
        return out


class Server:
    def __init__(self, model, momentum=0.6):
        self.state = {k: v.detach().clone() for k, v in model.named_parameters()}
        self.velocity = {k: torch.zeros_like(v) for k, v in self.state.items()}
        self.momentum = momentum

    def apply(self, updates, server_lr):
        for k in self.state:
            delta = torch.stack([u[k] for u in updates]).mean(0) - self.state[k]
            self.velocity[k] = self.momentum * self.velocity[k] + delta
            self.state[k] = self.state[k] + server_lr * self.velocity[k]


@torch.no_grad()
def accuracy(model, params, x, y):
    pred = functional_call(model, params, (x,)).argmax(-1)
    return (pred == y).float().mean().item()


def main():
    torch.manual_seed(15)
    device = torch_xla.device()
    torch_xla.manual_seed(15)

    clients = make_clients(seed=2)
    held_out = clients.pop()
    test_x = torch.from_numpy(held_out[0]).to(device)
    test_y = torch.from_numpy(held_out[1]).to(device)

    model = HarNet().to(device)
    server = Server(model)
    trainer = DPClientTrainer(model, device, seed=7)
    picker = np.random.default_rng(8)
    torch_xla.sync()

    for rnd in range(ROUNDS):
        lr = 0.5 / (1.0 + 0.05 * rnd)
        chosen = picker.choice(len(clients), PER_ROUND, replace=False)
        updates = []
        for c in chosen:
            updates.append(trainer.step(server.state, clients[c], lr))
            torch_xla.sync()
        server.apply(updates, server_lr=1.0)
        torch_xla.sync()
        if rnd % 4 == 3:
            acc = accuracy(model, server.state, test_x, test_y)
            print(f"round {rnd + 1:2d}  held-out accuracy {acc:.3f}  lr {lr:.3f}")


if __name__ == "__main__":
    main()
