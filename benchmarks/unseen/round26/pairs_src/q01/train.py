"""Momentum contrast pretraining on small synthetic crops (XLA)."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

CONFIG = dict(
    image_size=16,
    batch_size=8,
    dim=24,
    queue_size=64,
    momentum=0.99,
    temperature=0.2,
    lr=0.03,
    weight_decay=1e-4,
    steps=6,
    seed=11,
)


class TwoCrops(Dataset):
    """Pairs of noisy views of the same random image."""

    def __init__(self, n, size, seed):
        g = torch.Generator().manual_seed(seed)
        self.base = torch.rand(n, 3, size, size, generator=g)
        self.noise = 0.1 * torch.randn(2, n, 3, size, size, generator=g)

    def __len__(self):
        return self.base.shape[0]

    def __getitem__(self, i):
        return self.base[i] + self.noise[0, i], self.base[i] + self.noise[1, i]


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, stride=2, padding=1, bias=False)
        self.norm = nn.GroupNorm(3, 12)
        self.block = nn.Conv2d(12, 20, 3, stride=2, padding=1)
        self.fc1 = nn.Linear(20, 32)
        self.fc2 = nn.Linear(32, dim)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        x = F.relu(self.block(x)).mean(dim=(2, 3))
        return F.normalize(self.fc2(F.relu(self.fc1(x))), dim=1)


class MoCo(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.K, self.m, self.T = cfg["queue_size"], cfg["momentum"], cfg["temperature"]
        self.encoder_q = Encoder(cfg["dim"])
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(self.K, cfg["dim"]), dim=1))
        self.queue_ptr = 0

    @torch.no_grad()
    def _momentum_update(self):
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            pk.mul_(self.m).add_(pq, alpha=1.0 - self.m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        n = keys.shape[0]
        ptr = self.queue_ptr
        assert self.K % n == 0
        self.queue[ptr:ptr + n] = keys
        self.queue_ptr = (ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = self.encoder_q(im_q)
        with torch.no_grad():
            self._momentum_update()
            k = self.encoder_k(im_k)
        l_pos = (q * k).sum(dim=1, keepdim=True)
        l_neg = q @ self.queue.clone().t()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self._dequeue_and_enqueue(k)
        return logits, labels


def main(cfg):
    torch.manual_seed(cfg["seed"])
    device = torch_xla.device()
    model = MoCo(cfg).to(device)
    optimizer = torch.optim.SGD(model.encoder_q.parameters(), lr=cfg["lr"],
                                momentum=0.9, weight_decay=cfg["weight_decay"])
    data = TwoCrops(cfg["batch_size"] * cfg["steps"], cfg["image_size"], cfg["seed"])
    loader = pl.MpDeviceLoader(
        DataLoader(data, batch_size=cfg["batch_size"], drop_last=True), device)

    model.train()
    for step, (im_q, im_k) in enumerate(loader):
        logits, labels = model(im_q, im_k)
        loss = F.cross_entropy(logits, labels)
        acc = (logits.argmax(dim=1) == labels).float().mean()
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        xm.add_step_closure(
            lambda s, l, a: print(f"step {s} loss {l.item():.4f} acc {a.item():.2f}"),
            args=(step, loss, acc))


if __name__ == "__main__":
    main(CONFIG)
