"""Momentum contrast on synthetic two-view 'images' (toy MoCo v2)."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

CFG = dict(
    dim=16,
    queue_size=192,
    batch_size=16,
    momentum=0.99,
    temperature=0.2,
    lr=0.03,
    epochs=3,
    images=256,
)


class TwoViews(Dataset):
    def __init__(self, n, seed=0):
        rng = np.random.RandomState(seed)
        self.base = rng.randn(n, 3, 12, 12).astype(np.float32)
        self.rng = rng

    def __len__(self):
        return len(self.base)

    def _augment(self, img):
        if self.rng.rand() < 0.5:
            img = img[:, :, ::-1]
        img = img * self.rng.uniform(0.8, 1.2)
        img = img + 0.1 * self.rng.randn(*img.shape)
        return torch.from_numpy(np.ascontiguousarray(img, dtype=np.float32))

    def __getitem__(self, i):
        return self._augment(self.base[i]), self._augment(self.base[i])


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.proj = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, dim))

    def forward(self, x):
        h = self.body(x).mean((2, 3))
        return F.normalize(self.proj(h), dim=1)


class MoCo(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.K, self.m, self.T = cfg["queue_size"], cfg["momentum"], cfg["temperature"]
        self.encoder_q = Encoder(cfg["dim"])
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(cfg["dim"], self.K), dim=0))
        self.queue_ptr = 0

    @torch.no_grad()
    def _momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(self.m).add_(q, alpha=1.0 - self.m)

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
        l_pos = (q * k).sum(1, keepdim=True)
        l_neg = q @ self.queue.clone().detach()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        target = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self._dequeue_and_enqueue(k)
        return F.cross_entropy(logits, target)


def main():
    torch.manual_seed(0)
    device = xm.xla_device()
    model = MoCo(CFG).to(device)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=CFG["lr"], momentum=0.9, weight_decay=1e-4)
    loader = DataLoader(TwoViews(CFG["images"]), batch_size=CFG["batch_size"], shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    for epoch in range(CFG["epochs"]):
        epoch_loss = torch.zeros((), device=device)
        for im_q, im_k in loader:
            loss = model(im_q, im_k)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            epoch_loss += loss.detach()
        print(f"epoch {epoch} loss {epoch_loss.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
