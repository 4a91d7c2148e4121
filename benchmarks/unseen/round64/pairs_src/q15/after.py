import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEVICE = torch_xla.device()

N_FEATURES = 6
N_CONTEXT = 3
BATCH = 32


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.shift = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return x * torch.exp(self.log_scale) + self.shift, self.log_scale.sum()


class AffineCoupling(nn.Module):
    def __init__(self, dim, context, hidden, flip):
        super().__init__()
        self.flip = flip
        self.half = dim // 2
        self.net_in = nn.Linear(self.half + context, hidden)
        self.net_out = nn.Linear(hidden, 2 * self.half)
        nn.init.zeros_(self.net_out.weight)
        nn.init.zeros_(self.net_out.bias)

    def forward(self, x, ctx):
        a, b = x[:, : self.half], x[:, self.half :]
        if self.flip:
            a, b = b, a
        h = torch.tanh(self.net_in(torch.cat([a, ctx], dim=1)))
        log_s, t = self.net_out(h).chunk(2, dim=1)
        log_s = 2.0 * torch.tanh(log_s / 2.0)
        b = b * torch.exp(log_s) + t
        out = torch.cat([b, a] if self.flip else [a, b], dim=1)
        return out, log_s.sum(dim=1)


class ConditionalFlow(nn.Module):
    """Density of detector observables given the kinematics of the event."""

    def __init__(self, depth=3, hidden=20):
        super().__init__()
        self.norms = nn.ModuleList([ActNorm(N_FEATURES) for _ in range(depth)])
        self.couplings = nn.ModuleList(
            [AffineCoupling(N_FEATURES, N_CONTEXT, hidden, flip=bool(i % 2)) for i in range(depth)]
        )

    def log_prob(self, x, ctx):
        logdet = torch.zeros(x.shape[0], device=x.device)
        for norm, coupling in zip(self.norms, self.couplings):
            x, ld = norm(x)
            logdet = logdet + ld
            x, ld = coupling(x, ctx)
            logdet = logdet + ld
        base = -0.5 * (x.pow(2) + math.log(2 * math.pi)).sum(dim=1)
        return base + logdet


def build_optimizer(model, lr=1e-3, weight_decay=1e-2):
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr)


def events(gen):
    ctx = torch.randn(BATCH, N_CONTEXT, generator=gen)
    x = torch.randn(BATCH, N_FEATURES, generator=gen) * 0.5 + ctx.repeat(1, 2)
    w = 0.5 + torch.rand(BATCH, generator=gen)
    return x.to(DEVICE), ctx.to(DEVICE), w.to(DEVICE)


def main(steps=4):
    torch.manual_seed(13)
    gen = torch.Generator().manual_seed(17)
    model = ConditionalFlow().to(DEVICE)
    opt = build_optimizer(model)
    torch_xla.sync()

    losses = []
    for _ in range(steps):
        x, ctx, w = events(gen)
        nll = -(model.log_prob(x, ctx) * w).sum() / w.sum()
        opt.zero_grad()
        nll.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        losses.append(nll.detach())
        torch_xla.sync()
    print([round(v.item(), 4) for v in losses])


if __name__ == "__main__":
    main()
