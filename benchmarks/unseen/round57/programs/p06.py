"""Momentum-contrast pretraining on synthetic textures, with a short linear probe at the end."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def textures(n, size, gen):
    """Gratings of four orientations and random frequency, phase and colour."""
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    label = torch.randint(0, 4, (n,), generator=gen)
    angle = label * math.pi / 4 + 0.1 * torch.randn(n, generator=gen)
    freq = 4 + 4 * torch.rand(n, generator=gen)
    phase = 2 * math.pi * torch.rand(n, generator=gen)
    proj = xx * angle.cos()[:, None, None] + yy * angle.sin()[:, None, None]
    wave = torch.sin(freq[:, None, None] * proj + phase[:, None, None])
    colour = torch.rand(n, 3, 1, 1, generator=gen)
    img = wave.unsqueeze(1) * colour + 0.2 * torch.randn(n, 3, size, size, generator=gen)
    return img, label


def augment(x):
    """Flip, colour scaling, cut-out and noise, vectorised over the batch."""
    b, _, h, w = x.shape
    flip = (torch.rand(b, 1, 1, 1, device=x.device) < 0.5).to(x.dtype)
    x = flip * x.flip(-1).flip(-2) + (1 - flip) * x
    x = x * (0.6 + 0.8 * torch.rand(b, 3, 1, 1, device=x.device))
    cy, cx = torch.rand(2, b, 1, 1, 1, device=x.device) * h
    gy = torch.arange(h, device=x.device).view(1, 1, h, 1)
    gx = torch.arange(w, device=x.device).view(1, 1, 1, w)
    hole = ((gy - cy).abs() < h / 6) & ((gx - cx).abs() < w / 6)
    return x.masked_fill(hole, 0.0) + 0.05 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, width=12, out=24):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1), nn.GroupNorm(3, width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.GroupNorm(3, 2 * width), nn.ReLU())
        self.proj = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, out))

    def features(self, x):
        return self.stem(x).mean((2, 3))

    def forward(self, x):
        return F.normalize(self.proj(self.features(x)), dim=-1)


class MoCo(nn.Module):
    def __init__(self, dim=24, queue_size=2048, temperature=0.15):
        super().__init__()
        self.query = Encoder(out=dim)
        self.key = copy.deepcopy(self.query)
        for p in self.key.parameters():
            p.requires_grad = False
        self.temperature = temperature
        self.register_buffer("queue", F.normalize(torch.randn(dim, queue_size), dim=0))
        self.ptr = 0

    @torch.no_grad()
    def update_key(self, m):
        for q, k in zip(self.query.parameters(), self.key.parameters()):
            k.mul_(m).add_(q.detach(), alpha=1.0 - m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        assert self.queue.shape[1] % n == 0
        self.queue[:, self.ptr:self.ptr + n] = keys.t()
        self.ptr = (self.ptr + n) % self.queue.shape[1]

    def forward(self, a, b):
        q = self.query(a)
        with torch.no_grad():
            k = self.key(b)
        pos = (q * k).sum(-1, keepdim=True)
        neg = q @ self.queue.clone().detach()
        logits = torch.cat([pos, neg], 1) / self.temperature
        target = torch.zeros(len(q), dtype=torch.long, device=q.device)
        loss = F.cross_entropy(logits, target)
        self.enqueue(k)
        return loss


def momentum_at(step, total, base=0.95):
    return 1.0 - (1.0 - base) * (math.cos(math.pi * step / (total + 1)) + 1) / 2


def linear_probe(encoder, images, labels, steps=8):
    with torch.no_grad():
        feats = encoder.features(images)
    feats = (feats - feats.mean(0)) / (feats.std(0) + 1e-5)
    torch_xla.sync()
    head = nn.Linear(feats.shape[1], 4).to(images.device)
    opt = torch.optim.SGD(head.parameters(), lr=0.5, momentum=0.9)
    for _ in range(steps):
        opt.zero_grad()
        F.cross_entropy(head(feats), labels).backward()
        opt.step()
        torch_xla.sync()
    return (head(feats).argmax(-1) == labels).float().mean().item()


def main():
    gen = torch.Generator().manual_seed(31)
    torch.manual_seed(31)
    xm.set_rng_state(31)
    device = torch_xla.device()
    batch, steps = 32, 18
    pool, labels = textures(512, 24, gen)

    model = MoCo().to(device)
    opt = torch.optim.SGD(model.query.parameters(), lr=0.06, momentum=0.9, weight_decay=1e-4)
    for step in range(steps):
        for g in opt.param_groups:
            g["lr"] = 0.06 * min(1.0, (step + 1) / 6) * (1 - 0.8 * step / steps)
        idx = torch.randperm(len(pool), generator=gen)[:batch]
        x = pool[idx].to(device)
        opt.zero_grad()
        loss = model(augment(x), augment(x))
        loss.backward()
        opt.step()
        model.update_key(momentum_at(step, steps))
        torch_xla.sync()
        if step % 6 == 5:
            print(f"step {step + 1:3d} loss {loss.item():.4f} ptr {model.ptr}")

    acc = linear_probe(model.query, pool[:256].to(device), labels[:256].to(device))
    print(f"probe accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
