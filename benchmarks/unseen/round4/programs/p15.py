"""MoCo on tiny random images: momentum encoder and a queue of negative keys."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SIDE, BATCH = 16, 8


def conv_block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, 2, 1), nn.GroupNorm(4, o), nn.ReLU())


class Encoder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.net = nn.Sequential(conv_block(3, 16), conv_block(16, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.proj = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        return F.normalize(self.proj(self.net(x)), dim=1)


class MoCo(nn.Module):
    def __init__(self, dim=16, K=80, m=0.99, temp=0.2):
        super().__init__()
        self.K, self.m, self.temp = K, m, temp
        self.encoder_q = Encoder(dim)
        self.encoder_k = copy.deepcopy(self.encoder_q).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.ptr = 0

    @torch.no_grad()
    def update_key_encoder(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(self.m).add_(q, alpha=1 - self.m)

    @torch.no_grad()
    def dequeue_and_enqueue(self, keys):
        n = keys.shape[0]
        assert self.K % n == 0
        self.queue[:, self.ptr:self.ptr + n] = keys.t()
        self.ptr = (self.ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = self.encoder_q(im_q)
        with torch.no_grad():
            self.update_key_encoder()
            k = self.encoder_k(im_k)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.clone().detach()
        logits = torch.cat([pos, neg], 1) / self.temp
        self.dequeue_and_enqueue(k)
        return logits


def augment(x, g):
    flip = torch.rand(x.shape[0], 1, 1, 1, generator=g) < 0.5
    x = torch.where(flip, x.flip(3), x)
    return x * (0.8 + 0.4 * torch.rand(x.shape[0], 3, 1, 1, generator=g)) + 0.05 * torch.randn(x.shape, generator=g)


def main(epochs=3, per_epoch=6):
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(2)
    dev = torch_xla.device()
    images = torch.rand(per_epoch * BATCH, 3, SIDE, SIDE, generator=g)
    model = MoCo().to(dev)
    opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.03, momentum=0.9, weight_decay=1e-4)
    target = torch.zeros(BATCH, dtype=torch.long).to(dev)
    torch_xla.sync()
    for epoch in range(epochs):
        order = torch.randperm(len(images), generator=g)
        for lo in range(0, len(images), BATCH):
            x = images[order[lo:lo + BATCH]]
            im_q, im_k = augment(x, g).to(dev), augment(x, g).to(dev)
            loss = F.cross_entropy(model(im_q, im_k), target)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            torch_xla.sync()
        xm.master_print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
