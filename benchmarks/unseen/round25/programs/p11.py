"""Momentum contrast pre-training of a small conv encoder on synthetic textures."""
import math
import random
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    dim=32,
    queue_size=640,
    momentum=0.99,
    temperature=0.2,
    batch_size=20,
    steps=20,
    lr=0.03,
    wd=1e-4,
    img=16,
)


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 4, stride=4),
            nn.ReLU(),
            nn.Conv2d(16, 24, 1),
            nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        h = self.body(x).mean(dim=(2, 3))
        return F.normalize(self.head(h), dim=1)


class MoCo(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.K = cfg["queue_size"]
        self.m = cfg["momentum"]
        self.T = cfg["temperature"]
        self.encoder_q = Encoder(cfg["dim"])
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(cfg["dim"], self.K), dim=0))
        self.queue_ptr = 0

    @torch.no_grad()
    def _momentum_update(self):
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            pk.mul_(self.m).add_(pq, alpha=1.0 - self.m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        n = keys.shape[0]
        assert self.K % n == 0
        ptr = self.queue_ptr
        self.queue[:, ptr:ptr + n] = keys.t()
        self.queue_ptr = (ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = self.encoder_q(im_q)
        with torch.no_grad():
            self._momentum_update()
            k = self.encoder_k(im_k)
        l_pos = (q * k).sum(dim=1, keepdim=True)
        l_neg = q @ self.queue.clone().detach()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        target = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self._dequeue_and_enqueue(k)
        return F.cross_entropy(logits, target)


def two_views(rng, n, size):
    yy, xx = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    freq = rng.uniform(0.2, 1.5, size=(n, 1, 1, 1))
    phase = rng.uniform(0, math.pi, size=(n, 3, 1, 1))
    base = np.sin(freq * (xx + 0.5 * yy)[None, None] + phase)
    a = base + 0.2 * rng.standard_normal(base.shape)
    b = base[..., ::-1] + 0.2 * rng.standard_normal(base.shape)
    return torch.from_numpy(a).float(), torch.from_numpy(b.copy()).float()


def cosine(base, step, total):
    return base * 0.5 * (1 + math.cos(math.pi * step / total))


def main():
    random.seed(0)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = xm.xla_device()
    model = MoCo(CFG).to(device)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=CFG["lr"], momentum=0.9,
                          weight_decay=CFG["wd"])
    running = []
    for step in range(CFG["steps"]):
        for g in opt.param_groups:
            g["lr"] = cosine(CFG["lr"], step, CFG["steps"] + 1)
        im_q, im_k = two_views(rng, CFG["batch_size"], CFG["img"])
        loss = model(im_q.to(device), im_k.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        running.append(loss.detach())
        if (step + 1) % 5 == 0:
            print(f"step {step + 1} loss {np.mean([l.item() for l in running]):.4f}")
            running.clear()


if __name__ == "__main__":
    main()
