"""Momentum-contrast pretraining of a small ConvNet on synthetic textures."""
import argparse
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm


def conv_block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False),
                         nn.GroupNorm(4, cout), nn.ReLU(inplace=True))


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.stem = nn.Sequential(conv_block(3, 8), conv_block(8, 16), conv_block(16, 32))
        self.mlp = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        return F.normalize(self.mlp(self.stem(x).mean((2, 3))), dim=1)


class MoCo(nn.Module):
    def __init__(self, dim=16, queue=96, m=0.99, tau=0.2):
        super().__init__()
        self.K, self.m, self.tau = queue, m, tau
        self.encoder_q = Encoder(dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(dim, queue), dim=0))
        self.ptr = 0

    @torch.no_grad()
    def momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(self.m).add_(q, alpha=1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        assert self.K % n == 0
        self.queue[:, self.ptr:self.ptr + n] = keys.T
        self.ptr = (self.ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = self.encoder_q(im_q)
        with torch.no_grad():
            self.momentum_update()
            k = self.encoder_k(im_k)
        l_pos = (q * k).sum(1, keepdim=True)
        l_neg = q @ self.queue.clone().detach()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.tau
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self.enqueue(k)
        return F.cross_entropy(logits, labels), logits


class TwoCrops(torch.utils.data.Dataset):
    def __init__(self, n, size=24):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def view(self, base):
        img = base + 0.15 * torch.randn_like(base)
        if torch.rand(()) < 0.5:
            img = img.flip(-1)
        return img * (0.8 + 0.4 * torch.rand(3, 1, 1))

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        f = torch.rand(3, 2, generator=g) * 6
        ax = torch.linspace(0, math.pi, self.size)
        base = torch.sin(f[:, 0, None, None] * ax[None, :, None] + f[:, 1, None, None] * ax[None, None])
        return self.view(base), self.view(base)


def adjust_lr(optimizer, step, total, base):
    lr = base * 0.5 * (1.0 + math.cos(math.pi * step / total))
    for group in optimizer.param_groups:
        group["lr"] = lr


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--lr", type=float, default=0.06)
    args = ap.parse_args()

    torch.manual_seed(0)
    device = xm.xla_device()
    model = MoCo().to(device)
    optimizer = torch.optim.SGD(model.encoder_q.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    loader = torch.utils.data.DataLoader(TwoCrops(96), args.batch_size, shuffle=True, drop_last=True)
    total, step = args.epochs * len(loader), 0
    for epoch in range(args.epochs):
        for im_q, im_k in loader:
            adjust_lr(optimizer, step, total, args.lr)
            loss, logits = model(im_q.to(device), im_k.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            xm.mark_step()
            step += 1
        top1 = (logits.argmax(1) == 0).float().mean()
        print(f"epoch {epoch} loss {loss.item():.4f} pretext-acc {top1.item():.2f}")


if __name__ == "__main__":
    main()
