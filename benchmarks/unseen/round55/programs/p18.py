"""Momentum contrast on sensor windows: query/key encoders and a dictionary of negatives."""
import copy
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CHANNELS, WINDOW = 3, 64


class Activities:
    """Accelerometer-like windows of a few activities, with per-wearer gain and phase."""

    def __init__(self, n=1024, classes=5, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, classes, (n,), generator=g)
        freq = 1.0 + self.y.float()[:, None, None] * 1.7
        phase = torch.rand(n, CHANNELS, 1, generator=g) * 6.28
        gain = 0.6 + torch.rand(n, 1, 1, generator=g)
        t = torch.linspace(0, 1, WINDOW)[None, None]
        self.x = gain * torch.sin(6.28 * freq * t + phase) + 0.2 * torch.randn(n, CHANNELS, WINDOW, generator=g)

    def pairs(self, bs, g):
        order = torch.randperm(len(self.x), generator=g)
        for s in range(0, len(order) - bs + 1, bs):
            x = self.x[order[s:s + bs]]
            yield augment(x, g), augment(x, g)


def augment(x, g):
    scale = 0.8 + 0.4 * torch.rand(x.size(0), x.size(1), 1, generator=g)
    x = x * scale + 0.1 * torch.randn(x.shape, generator=g)
    off = int(torch.randint(0, 16, (1,), generator=g))
    return F.interpolate(x[..., off:off + 48], size=WINDOW, mode="linear")


class Encoder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(CHANNELS, 12, 5, stride=2, padding=2), nn.GroupNorm(3, 12), nn.GELU(),
            nn.Conv1d(12, 24, 5, stride=2, padding=2), nn.GroupNorm(4, 24), nn.GELU(),
        )
        self.proj = nn.Sequential(nn.Linear(24, 24), nn.GELU(), nn.Linear(24, dim))

    def forward(self, x):
        return F.normalize(self.proj(self.body(x).mean(-1)), dim=1)


class MomentumContrast(nn.Module):
    def __init__(self, encoder, dim=16, size=1536, momentum=0.99, temperature=0.1):
        super().__init__()
        self.q, self.k = encoder, copy.deepcopy(encoder)
        for p in self.k.parameters():
            p.requires_grad_(False)
        self.size, self.m, self.tau = size, momentum, temperature
        self.register_buffer("queue", F.normalize(torch.randn(dim, size), dim=0))
        self.ptr = 0

    @torch.no_grad()
    def _momentum_update(self):
        for a, b in zip(self.q.parameters(), self.k.parameters()):
            b.mul_(self.m).add_(a, alpha=1 - self.m)

    @torch.no_grad()
    def _enqueue(self, keys):
        n = keys.size(0)
        self.queue[:, self.ptr:self.ptr + n] = keys.t()
        self.ptr = (self.ptr + n) % self.size

    def forward(self, xq, xk):
        q = self.q(xq)
        with torch.no_grad():
            self._momentum_update()
            k = self.k(xk)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.clone()
        logits = torch.cat([pos, neg], 1) / self.tau
        target = torch.zeros(q.size(0), dtype=torch.long, device=q.device)
        loss = F.cross_entropy(logits, target)
        rank = (neg > pos).float().sum(1).mean()
        self._enqueue(k)
        return loss, rank


@torch.no_grad()
def knn_score(encoder, data, device):
    encoder.eval()
    z = encoder(data.x[:256].to(device))
    sim = z[128:] @ z[:128].t()
    guess = data.y[:128].to(device)[sim.argmax(1)]
    encoder.train()
    return (guess == data.y[128:256].to(device)).float().mean().item()


def main(epochs=2, bs=32):
    torch.manual_seed(17)
    g = torch.Generator().manual_seed(17)
    device = torch_xla.device()
    data = Activities(n=640, seed=17)
    model = MomentumContrast(Encoder()).to(device)
    opt = torch.optim.SGD(model.q.parameters(), lr=0.06, momentum=0.9, weight_decay=1e-4)

    for epoch in range(epochs):
        loss_sum = torch.zeros((), device=device)
        n = 0
        for xq, xk in data.pairs(bs, g):
            loss, rank = model(xq.to(device), xk.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            loss_sum += loss.detach()
            xm.mark_step()
            n += 1
        print(f"epoch {epoch} loss {loss_sum.item() / n:.4f} rank {rank.item():.2f} knn {knn_score(model.q, data, device):.3f}")


if __name__ == "__main__":
    main()
