"""Self-supervised pretraining on wrist accelerometer windows."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv1d(3, 16, 7, stride=2, padding=3), nn.GroupNorm(4, 16), nn.GELU(),
            nn.Conv1d(16, 24, 5, stride=2, padding=2), nn.GroupNorm(4, 24), nn.GELU(),
            nn.Conv1d(24, 32, 3, stride=2, padding=1), nn.GroupNorm(4, 32), nn.GELU())
        self.mlp = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        return F.normalize(self.mlp(self.trunk(x).mean(-1)), dim=1)


class Contrast(nn.Module):
    def __init__(self, dim=32, size=256, m=0.99, temperature=0.1):
        super().__init__()
        self.online = Encoder(dim)
        self.momentum = copy.deepcopy(self.online).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(dim, size), dim=0))
        self.size, self.m, self.t = size, m, temperature
        self.ptr = 0

    @torch.no_grad()
    def ema(self):
        for a, b in zip(self.online.parameters(), self.momentum.parameters()):
            b.mul_(self.m).add_(a, alpha=1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        self.queue[:, self.ptr:self.ptr + n] = keys.T
        self.ptr = (self.ptr + n) % self.size

    def forward(self, xq, xk):
        q = self.online(xq)
        with torch.no_grad():
            self.ema()
            k = self.momentum(xk)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.clone().detach()
        logits = torch.cat([pos, neg], dim=1) / self.t
        loss = F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))
        self.enqueue(k)
        return loss


def augment(x, rng):
    gain = rng.uniform(0.8, 1.2, (x.shape[0], 3, 1))
    return torch.from_numpy((x * gain + 0.05 * rng.standard_normal(x.shape)).astype(np.float32))


def main(steps=8, batch=32):
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    dev = xm.xla_device()
    model = Contrast().to(dev)
    opt = torch.optim.SGD(model.online.parameters(), lr=0.06, momentum=0.9, weight_decay=1e-4)
    for i in range(steps):
        raw = np.cumsum(rng.standard_normal((batch, 3, 128)), -1) / 10
        a, b = augment(raw, rng).to(dev), augment(raw, rng).to(dev)
        loss = model(a, b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        print(f"{i} loss {loss.item():.4f} compiles {met.counter_value('UncachedCompile') or 0}")


if __name__ == "__main__":
    main()
