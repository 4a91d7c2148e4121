"""Momentum-contrast pretraining on synthetic textures (small MoCo-v2 style)."""
import copy

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
    queue=256,
    momentum=0.99,
    temperature=0.2,
    batch=16,
    lr=0.05,
    epochs=2,
    images=18 * 16,
)


class TwoCrops(Dataset):
    """Sinusoidal gratings, two noisy views of each."""

    def __init__(self, n, size=16):
        rng = np.random.RandomState(0)
        yy, xx = np.mgrid[0:size, 0:size] / size
        freq = rng.uniform(1, 6, size=(n, 2))
        phase = rng.uniform(0, 2 * np.pi, size=(n,))
        self.base = np.stack([
            np.sin(2 * np.pi * (f[0] * xx + f[1] * yy) + p)
            for f, p in zip(freq, phase)
        ]).astype(np.float32)
        self.rng = rng

    def __len__(self):
        return len(self.base)

    def _view(self, img):
        if self.rng.rand() < 0.5:
            img = img[:, ::-1]
        img = np.roll(img, self.rng.randint(-3, 4), axis=0)
        img = img * self.rng.uniform(0.7, 1.3)
        return (img + 0.1 * self.rng.randn(*img.shape)).astype(np.float32)[None]

    def __getitem__(self, i):
        return self._view(self.base[i]), self._view(self.base[i])


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.head = nn.Sequential(nn.Linear(16 * 16, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.norm(self.conv2(x)))
        return F.normalize(self.head(x.flatten(1)), dim=1)


class MoCo(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.m, self.T, self.K = cfg["momentum"], cfg["temperature"], cfg["queue"]
        self.encoder_q = Encoder(cfg["dim"])
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(cfg["dim"], self.K), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(self.m).add_(q, alpha=1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        ptr = int(self.queue_ptr)
        assert self.K % n == 0
        self.queue[:, ptr:ptr + n] = keys.T
        self.queue_ptr[0] = (ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = self.encoder_q(im_q)
        with torch.no_grad():
            self.momentum_update()
            k = self.encoder_k(im_k)
        l_pos = (q * k).sum(1, keepdim=True)
        l_neg = q @ self.queue.clone().detach()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self.enqueue(k)
        return F.cross_entropy(logits, labels)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = MoCo(CFG).to(device)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=CFG["lr"], momentum=0.9, weight_decay=1e-4)
    loader = DataLoader(TwoCrops(CFG["images"]), batch_size=CFG["batch"], shuffle=True, drop_last=True)
    for epoch in range(CFG["epochs"]):
        para = pl.MpDeviceLoader(loader, device)
        for it, (a, b) in enumerate(para):
            loss = model(a, b)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            if it % 6 == 5:
                xm.add_step_closure(lambda l, e=epoch, i=it: print(f"epoch {e} it {i} loss {l.item():.3f}"), args=(loss,))


if __name__ == "__main__":
    main()
