"""Momentum-contrast pretraining on small synthetic textures."""
import argparse
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


class TwoCropTextures(Dataset):
    """Every item is a pair of noisy views of a sinusoidal texture."""

    def __init__(self, n, size=16, seed=0):
        rng = np.random.RandomState(seed)
        yy, xx = np.mgrid[0:size, 0:size] / size
        freq = rng.uniform(1, 6, size=(n, 2))
        phase = rng.uniform(0, 6.28, size=(n, 3))
        imgs = [
            np.stack([np.sin(6.28 * (f[0] * xx + f[1] * yy) + p[c]) for c in range(3)])
            for f, p in zip(freq, phase)
        ]
        self.images = np.stack(imgs).astype(np.float32)
        self.rng = rng

    def __len__(self):
        return len(self.images)

    def _view(self, img):
        img = img * self.rng.uniform(0.7, 1.3)
        if self.rng.rand() < 0.5:
            img = img[:, :, ::-1]
        return torch.from_numpy(np.ascontiguousarray(img + 0.1 * self.rng.randn(*img.shape)).astype(np.float32))

    def __getitem__(self, i):
        return self._view(self.images[i]), self._view(self.images[i])


def make_encoder(dim):
    return nn.Sequential(
        nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(3 * 8 * 8, 48), nn.LayerNorm(48), nn.ReLU(),
        nn.Linear(48, dim),
    )


class MoCo(nn.Module):
    def __init__(self, dim=24, bank=384, m=0.99, temperature=0.1):
        super().__init__()
        self.bank, self.m, self.temperature = bank, m, temperature
        self.encoder_q = make_encoder(dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, bank), dim=0))
        self.ptr = 0

    @torch.no_grad()
    def update_key_encoder(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(self.m).add_(q, alpha=1.0 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        assert self.bank % n == 0
        self.queue[:, self.ptr:self.ptr + n] = keys.t()
        self.ptr = (self.ptr + n) % self.bank

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self.update_key_encoder()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = (q * k).sum(dim=1, keepdim=True)
        l_neg = q @ self.queue.clone().detach()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.temperature
        target = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self.enqueue(k)
        return logits, target


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=0.03)
    args = ap.parse_args()

    torch.manual_seed(0)
    device = torch_xla.device()
    data = TwoCropTextures(12 * args.batch_size)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)

    model = MoCo().to(device)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)

    for epoch in range(args.epochs):
        total = torch.zeros((), device=device)
        for im_q, im_k in loader:
            logits, target = model(im_q, im_k)
            loss = F.cross_entropy(logits, target)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            total += loss.detach()
        print(f"epoch {epoch}: loss {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
