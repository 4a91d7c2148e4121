"""Momentum-contrast pretraining on small synthetic textures (single core)."""
import copy
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

CFG = dict(
    dim=32,
    queue_size=320,
    momentum=0.99,
    temperature=0.2,
    batch_size=16,
    epochs=2,
    base_lr=0.03,
    weight_decay=1e-4,
    n_images=256,
    seed=7,
)


class TextureViews(Dataset):
    """Two noisy crops of the same sinusoidal texture."""

    def __init__(self, n, size=16, seed=0):
        rng = np.random.RandomState(seed)
        self.freq = rng.uniform(0.5, 3.0, (n, 2))
        self.phase = rng.uniform(0, 2 * math.pi, n)
        self.color = rng.uniform(0.2, 1.0, (n, 3))
        self.size = size

    def __len__(self):
        return len(self.phase)

    def _view(self, i):
        big = self.size + 8
        yy, xx = np.mgrid[0:big, 0:big] / float(big)
        img = np.sin(2 * math.pi * (self.freq[i, 0] * xx + self.freq[i, 1] * yy) + self.phase[i])
        img = img[None] * self.color[i][:, None, None]
        top, left = np.random.randint(0, 8, 2)
        img = img[:, top:top + self.size, left:left + self.size]
        if np.random.rand() < 0.5:
            img = img[:, :, ::-1]
        return (img + 0.05 * np.random.randn(*img.shape)).astype(np.float32)

    def __getitem__(self, i):
        return torch.from_numpy(self._view(i)), torch.from_numpy(self._view(i))


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        return F.normalize(self.head(self.features(x).mean((2, 3))), dim=1)


class MoCo(nn.Module):
    def __init__(self, dim, K, m, T):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = Encoder(dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.queue_ptr = 0

    @torch.no_grad()
    def _update_key_encoder(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(self.m).add_(q.detach(), alpha=1.0 - self.m)

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
            self._update_key_encoder()
            k = self.encoder_k(im_k)
        l_pos = (q * k).sum(1, keepdim=True)
        l_neg = q @ self.queue.clone().detach()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self._dequeue_and_enqueue(k)
        return F.cross_entropy(logits, labels)


def cosine_lr(opt, step, total, base):
    for group in opt.param_groups:
        group["lr"] = base * 0.5 * (1.0 + math.cos(math.pi * step / total))


def main(cfg):
    torch.manual_seed(cfg["seed"])
    np.random.seed(cfg["seed"])
    device = xm.xla_device()
    data = TextureViews(cfg["n_images"])
    loader = DataLoader(data, batch_size=cfg["batch_size"], shuffle=True, drop_last=True)
    model = MoCo(cfg["dim"], cfg["queue_size"], cfg["momentum"], cfg["temperature"]).to(device)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=cfg["base_lr"], momentum=0.9,
                          weight_decay=cfg["weight_decay"])
    total, step = cfg["epochs"] * len(loader), 0
    for epoch in range(cfg["epochs"]):
        t0 = time.time()
        for im_q, im_k in pl.MpDeviceLoader(loader, device):
            cosine_lr(opt, step, total, cfg["base_lr"])
            loss = model(im_q, im_k)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 8 == 0:
                xm.add_step_closure(lambda l, s: print(f"step {s} loss {l.item():.4f}"), args=(loss, step))
        xm.master_print(f"epoch {epoch} done in {time.time() - t0:.1f}s")


if __name__ == "__main__":
    main(CFG)
