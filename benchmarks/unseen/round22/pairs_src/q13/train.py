# Momentum contrast on random vectors, two noisy views per sample.
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


class TwoViews(Dataset):
    def __init__(self, n, dim, noise, seed):
        g = torch.Generator().manual_seed(seed)
        self.base = torch.randn(n, dim, generator=g)
        self.noise = noise
        self.gen = g

    def __len__(self):
        return self.base.shape[0]

    def __getitem__(self, i):
        x = self.base[i]
        v1 = x + self.noise * torch.randn(x.shape, generator=self.gen)
        v2 = x + self.noise * torch.randn(x.shape, generator=self.gen)
        return v1, v2


def mlp(d_in, d_hidden, d_out):
    return nn.Sequential(
        nn.Linear(d_in, d_hidden),
        nn.LayerNorm(d_hidden),
        nn.ReLU(inplace=True),
        nn.Linear(d_hidden, d_hidden),
        nn.ReLU(inplace=True),
        nn.Linear(d_hidden, d_out),
    )


class MoCo(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.K, self.m, self.T = args.queue, args.momentum, args.temperature
        self.encoder_q = mlp(args.dim, args.hidden, args.proj)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(args.proj, self.K), dim=0))
        self.ptr = 0

    @torch.no_grad()
    def momentum_update(self):
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            pk.mul_(self.m).add_(pq, alpha=1.0 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        assert self.K % n == 0
        self.queue[:, self.ptr : self.ptr + n] = keys.t()
        self.ptr = (self.ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self.momentum_update()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = (q * k).sum(dim=1, keepdim=True)
        l_neg = q @ self.queue.clone().detach()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        target = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self.enqueue(k)
        return logits, target


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=20)
    ap.add_argument("--hidden", type=int, default=24)
    ap.add_argument("--proj", type=int, default=10)
    ap.add_argument("--queue", type=int, default=72)
    ap.add_argument("--batch", type=int, default=12)
    ap.add_argument("--momentum", type=float, default=0.99)
    ap.add_argument("--temperature", type=float, default=0.2)
    ap.add_argument("--lr", type=float, default=0.06)
    return ap.parse_args()


def main():
    args = get_args()
    torch.manual_seed(0)
    device = torch_xla.device()
    model = MoCo(args).to(device)
    optim = torch.optim.SGD(
        model.encoder_q.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4
    )
    data = TwoViews(60, args.dim, 0.3, seed=1)
    loader = DataLoader(data, batch_size=args.batch, shuffle=True, drop_last=True)
    device_loader = pl.MpDeviceLoader(loader, device)
    for epoch in range(1):
        for i, (v1, v2) in enumerate(device_loader):
            logits, target = model(v1, v2)
            loss = F.cross_entropy(logits, target)
            acc = (logits.argmax(1) == target).float().mean()
            optim.zero_grad()
            loss.backward()
            xm.optimizer_step(optim)
            xm.add_step_closure(
                lambda l, a, i=i: print(f"iter {i} loss {l.item():.4f} acc {a.item():.2f}"),
                args=(loss, acc),
            )


if __name__ == "__main__":
    main()
