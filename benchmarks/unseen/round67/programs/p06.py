"""Momentum-contrast pretraining on marine engine vibration windows."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class VibrationWindows:
    """Two augmented views of windows cut from synthetic engine recordings."""

    def __init__(self, length=96, channels=3, seed=0):
        self.length = length
        self.channels = channels
        self.gen = torch.Generator().manual_seed(seed)
        self.t = torch.arange(length) / length

    def rand(self, *shape):
        return torch.rand(*shape, generator=self.gen)

    def clean(self, n):
        regime = torch.randint(0, 4, (n,), generator=self.gen)
        base = (4 + 3 * regime).float().view(n, 1, 1)
        harmonics = torch.arange(1, self.channels + 1).view(1, -1, 1)
        phase = 2 * math.pi * self.rand(n, self.channels, 1)
        return torch.sin(2 * math.pi * base * harmonics * self.t + phase), regime

    def augment(self, x):
        gain = 0.8 + 0.4 * self.rand(x.shape[0], 1, 1)
        noise = 0.2 * torch.randn(x.shape, generator=self.gen)
        flip = torch.where(self.rand(x.shape[0], 1, 1) < 0.5, -1.0, 1.0)
        return gain * flip * x + noise

    def pair(self, n):
        x, _ = self.clean(n)
        return self.augment(x), self.augment(x)


class Encoder(nn.Module):
    def __init__(self, channels=3, width=16, dim=24):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, width, 9, stride=2, padding=4)
        self.conv2 = nn.Conv1d(width, width, 5, stride=2, padding=2)
        self.proj = nn.Linear(width, dim)

    def forward(self, x):
        h = F.gelu(self.conv1(x))
        h = F.gelu(self.conv2(h)).mean(dim=-1)
        return F.normalize(self.proj(h), dim=1)


class MoCo(nn.Module):
    def __init__(self, dim=24, slots=6, batch=16, momentum=0.97, temperature=0.1):
        super().__init__()
        self.query = Encoder(dim=dim)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.momentum = momentum
        self.temperature = temperature
        self.batch = batch
        self.ptr = 0
        self.register_buffer("queue", F.normalize(torch.randn(slots * batch, dim), dim=1))

    @torch.no_grad()
    def update_key(self):
        for q, k in zip(self.query.parameters(), self.key.parameters()):
            k.mul_(self.momentum).add_(q, alpha=1.0 - self.momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        self.queue[self.ptr:self.ptr + self.batch] = keys
        self.ptr = (self.ptr + self.batch) % self.queue.shape[0]

    def forward(self, a, b):
        q = self.query(a)
        with torch.no_grad():
            self.update_key()
            k = self.key(b)
        positive = (q * k).sum(dim=1, keepdim=True)
        negative = q @ self.queue.clone().t()
        logits = torch.cat([positive, negative], dim=1) / self.temperature
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        loss = F.cross_entropy(logits, labels)
        self.enqueue(k)
        return loss, logits


@torch.no_grad()
def knn_probe(model, bank_x, bank_y, probe_x, probe_y):
    model.eval()
    sim = model.query(probe_x) @ model.query(bank_x).t()
    nearest = bank_y[sim.argmax(dim=1)]
    score = (nearest == probe_y).float().mean()
    torch_xla.sync()
    model.train()
    return score.item()


def main():
    torch.manual_seed(13)
    device = torch_xla.device()
    source = VibrationWindows(seed=19)

    bank_x, bank_y = (v.to(device) for v in source.clean(48))
    probe_x, probe_y = (v.to(device) for v in source.clean(24))

    model = MoCo().to(device)
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.05, momentum=0.9,
                                weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=60, eta_min=1e-3)

    for step in range(1, 55):
        a, b = source.pair(model.batch)
        loss, logits = model(a.to(device), b.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        top1 = (logits.argmax(dim=1) == 0).float().mean()
        torch_xla.sync()

        if step % 9 == 0:
            probe = knn_probe(model, bank_x, bank_y, probe_x, probe_y)
            print(f"step {step:3d}  loss {loss.item():.3f}  instance {top1.item():.2f}  knn {probe:.2f}")


if __name__ == "__main__":
    main()
