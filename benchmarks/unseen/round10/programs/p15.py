"""Learned matching of two noisy point sets with attention and optimal transport."""
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

N_POINTS = 20
DIM = 32
BATCH = 6
STEPS = 24


def mlp(sizes):
    layers = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            layers += [nn.LayerNorm(b), nn.ReLU()]
    return nn.Sequential(*layers)


class CrossAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.ModuleList([nn.Linear(dim, dim) for _ in range(3)])
        self.merge = mlp([2 * dim, 2 * dim, dim])

    def split(self, t):
        return t.view(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, source):
        q, k, v = [self.split(l(s)) for l, s in zip(self.qkv, (x, source, source))]
        w = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
        msg = (w @ v).transpose(1, 2).reshape_as(x)
        return x + self.merge(torch.cat([x, msg], -1))


def transport(scores, max_iters, tol):
    """Log-domain Sinkhorn with uniform marginals."""
    n = scores.shape[-1]
    log_mu = -math.log(n)
    u = torch.zeros_like(scores[:, :, 0])
    v = torch.zeros_like(scores[:, 0, :])
    for _ in range(max_iters):
        prev = u
        u = log_mu - torch.logsumexp(scores + v.unsqueeze(1), dim=2)
        v = log_mu - torch.logsumexp(scores + u.unsqueeze(2), dim=1)
        if (u - prev).detach().abs().max() < tol:
            break
    return scores + u.unsqueeze(2) + v.unsqueeze(1) + math.log(n)


class Matcher(nn.Module):
    def __init__(self, dim=DIM, rounds=1):
        super().__init__()
        self.embed = mlp([3, dim, dim])
        self.self_layers = nn.ModuleList([CrossAttention(dim) for _ in range(rounds)])
        self.cross_layers = nn.ModuleList([CrossAttention(dim) for _ in range(rounds)])
        self.project = nn.Linear(dim, dim)
        self.log_temp = nn.Parameter(torch.tensor(0.5))

    def forward(self, a, b):
        a, b = self.embed(a), self.embed(b)
        for s, c in zip(self.self_layers, self.cross_layers):
            a, b = s(a, a), s(b, b)
            a, b = c(a, b), c(b, a)
        scores = self.project(a) @ self.project(b).transpose(1, 2) / math.sqrt(a.shape[-1])
        return transport(scores * self.log_temp.exp(), max_iters=10, tol=0.25)


def sample_pairs(gen):
    pts = torch.randn(BATCH, N_POINTS, 3, generator=gen)
    angle = torch.rand(BATCH, generator=gen) * 0.6
    c, s, z, o = angle.cos(), angle.sin(), torch.zeros(BATCH), torch.ones(BATCH)
    rot = torch.stack([c, -s, z, s, c, z, z, z, o], 1).view(BATCH, 3, 3)
    perm = torch.stack([torch.randperm(N_POINTS, generator=gen) for _ in range(BATCH)])
    moved = (pts @ rot.transpose(1, 2)).gather(1, perm.unsqueeze(-1).expand(-1, -1, 3))
    moved = moved + 0.02 * torch.randn(moved.shape, generator=gen)
    return pts, moved, perm.argsort(1)


def train():
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(3)
    device = xm.xla_device()
    net = Matcher().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-4)
    for step in range(1, STEPS + 1):
        a, b, match = [t.to(device) for t in sample_pairs(gen)]
        log_p = net(a, b)
        loss = -log_p.gather(2, match.unsqueeze(-1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        acc = (log_p.argmax(2) == match).float().mean()
        xm.mark_step()
        if step % 8 == 0:
            print(f"[{step}/{STEPS}] nll {loss.item():.3f} acc {acc.item():.3f}")


if __name__ == "__main__":
    train()
