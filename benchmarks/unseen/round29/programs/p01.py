"""Momentum-contrast pretraining on small synthetic textures."""
import copy
import math

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
    queue=384,
    momentum=0.99,
    temperature=0.2,
    batch_size=16,
    lr=0.03,
    epochs=3,
    n_images=320,
    image=16,
)


class Textures(Dataset):
    """Two independently jittered views of a sinusoidal texture."""

    def __init__(self, n, size, seed=0):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[0:size, 0:size] / size
        freq = rng.uniform(1, 6, (n, 3, 2))
        phase = rng.uniform(0, 2 * math.pi, (n, 3))
        waves = (freq[..., 0, None, None] * xx + freq[..., 1, None, None] * yy) * 2 * math.pi
        self.images = np.sin(waves + phase[..., None, None]).astype(np.float32)
        self.rng = rng

    def __len__(self):
        return len(self.images)

    def _view(self, img):
        gain = self.rng.uniform(0.6, 1.4, (3, 1, 1))
        out = img * gain + self.rng.normal(0, 0.15, img.shape)
        if self.rng.random() < 0.5:
            out = out[:, :, ::-1]
        return torch.from_numpy(np.ascontiguousarray(out, dtype=np.float32))

    def __getitem__(self, i):
        return self._view(self.images[i]), self._view(self.images[i])


def encoder(dim):
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, dim),
    )


class MoCo(nn.Module):

    def __init__(self, dim, K, m, T):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = encoder(dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(K, dim), dim=1))
        self.queue_ptr = 0

    @torch.no_grad()
    def _update_key_encoder(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(self.m).add_(q, alpha=1.0 - self.m)

    @torch.no_grad()
    def _enqueue(self, keys):
        n = keys.shape[0]
        assert self.K % n == 0
        ptr = self.queue_ptr
        self.queue[ptr:ptr + n] = keys
        self.queue_ptr = (ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._update_key_encoder()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = (q * k).sum(dim=1, keepdim=True)
        l_neg = q @ self.queue.clone().t()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self._enqueue(k)
        return logits, labels


def main(cfg):
    torch.manual_seed(7)
    device = torch_xla.device()
    model = MoCo(cfg["dim"], cfg["queue"], cfg["momentum"], cfg["temperature"]).to(device)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=cfg["lr"], momentum=0.9, weight_decay=1e-4)
    host_loader = DataLoader(Textures(cfg["n_images"], cfg["image"]), batch_size=cfg["batch_size"],
                             shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(host_loader, device)

    for epoch in range(cfg["epochs"]):
        model.train()
        losses = torch.zeros((), device=device)
        for im_q, im_k in loader:
            logits, labels = model(im_q, im_k)
            loss = F.cross_entropy(logits, labels)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            losses += loss.detach()
        torch_xla.sync()
        print(f"epoch {epoch}: loss {losses.item() / len(host_loader):.4f}")


if __name__ == "__main__":
    main(CFG)
