# Momentum contrast on synthetic "spectra": query encoder, momentum key encoder, dictionary queue.
import copy

import torch
import torch.nn.functional as F
import torch_xla
from torch import nn

args = dict(dim=16, in_len=40, K=48, m=0.99, T=0.2, bs=12, lr=0.05, steps=8)


def encoder():
    return nn.Sequential(
        nn.Conv1d(1, 6, 5, stride=2, padding=2),
        nn.BatchNorm1d(6),
        nn.ReLU(),
        nn.Conv1d(6, 12, 3, stride=2, padding=1),
        nn.BatchNorm1d(12),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(120, 32),
        nn.ReLU(),
        nn.Linear(32, args["dim"]),
    )


class MoCo(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder_q = encoder()
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(args["K"], args["dim"]), dim=1))
        self.ptr = 0

    @torch.no_grad()
    def momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(args["m"]).add_(q, alpha=1.0 - args["m"])

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        assert args["K"] % n == 0
        self.queue[self.ptr:self.ptr + n] = keys
        self.ptr = (self.ptr + n) % args["K"]

    def forward(self, x_q, x_k):
        q = F.normalize(self.encoder_q(x_q), dim=1)
        with torch.no_grad():
            self.momentum_update()
            k = F.normalize(self.encoder_k(x_k), dim=1)
        l_pos = (q * k).sum(1, keepdim=True)
        l_neg = q @ self.queue.clone().t()
        logits = torch.cat([l_pos, l_neg], dim=1) / args["T"]
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self.enqueue(k)
        return logits, labels


def two_views(rng):
    base = torch.randn(args["bs"], 1, args["in_len"], generator=rng).cumsum(-1)
    noise = [0.1 * torch.randn(base.shape, generator=rng) for _ in range(2)]
    return base + noise[0], base.flip(-1) + noise[1]


def main():
    torch.manual_seed(3)
    rng = torch.Generator().manual_seed(4)
    dev = torch_xla.device()
    model = MoCo().to(dev)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=args["lr"], momentum=0.9, weight_decay=1e-4)
    log = []
    torch_xla.sync()
    for it in range(args["steps"]):
        a, b = two_views(rng)
        logits, labels = model(a.to(dev), b.to(dev))
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        acc = (logits.argmax(1) == labels).float().mean()
        torch_xla.sync()
        log.append((loss.item(), acc.item()))
    for it, (l, a) in enumerate(log):
        print(f"it {it} loss {l:.4f} acc {a:.3f}")


if __name__ == "__main__":
    main()
