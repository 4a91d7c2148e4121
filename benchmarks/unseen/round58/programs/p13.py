"""A coupling flow fitted to an unnormalised posterior with tempered importance weights."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Coupling(nn.Module):
    def __init__(self, dim, hidden, flip):
        super().__init__()
        mask = torch.arange(dim) % 2
        self.register_buffer("mask", (1 - mask if flip else mask).float())
        self.net = nn.Sequential(
            nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 2 * dim))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def params(self, kept):
        s, t = self.net(kept).chunk(2, dim=-1)
        return 1.5 * torch.tanh(s) * (1 - self.mask), t * (1 - self.mask)

    def forward(self, z):
        s, t = self.params(z * self.mask)
        return z * torch.exp(s) + t, s.sum(-1)

    def inverse(self, x):
        s, t = self.params(x * self.mask)
        return (x - t) * torch.exp(-s), -s.sum(-1)


class Flow(nn.Module):
    def __init__(self, dim, hidden, depth):
        super().__init__()
        self.dim = dim
        self.layers = nn.ModuleList(Coupling(dim, hidden, i % 2 == 0) for i in range(depth))
        self.log_scale = nn.Parameter(torch.zeros(dim))

    def base_log_prob(self, z):
        return -0.5 * (z ** 2).sum(-1) - 0.5 * self.dim * math.log(2 * math.pi)

    def sample(self, n):
        z = torch.randn(n, self.dim, device=self.log_scale.device)
        logq = self.base_log_prob(z)
        for layer in self.layers:
            z, ld = layer(z)
            logq = logq - ld
        return z * self.log_scale.exp(), logq - self.log_scale.sum()

    def log_prob(self, x):
        x, ld = x * torch.exp(-self.log_scale), -self.log_scale.sum()
        for layer in reversed(self.layers):
            x, d = layer.inverse(x)
            ld = ld + d
        return self.base_log_prob(x) + ld


class LogisticPosterior:
    """Bayesian logistic regression with a Student-t prior."""

    def __init__(self, n, dim, device, seed=5):
        g = torch.Generator().manual_seed(seed)
        x = torch.randn(n, dim, generator=g)
        w = torch.linspace(-1.5, 1.5, dim)
        y = (torch.rand(n, generator=g) < torch.sigmoid(x @ w)).float()
        self.x, self.y = x.to(device), y.to(device)

    def __call__(self, w):
        logits = w @ self.x.t()
        loglik = -(F.softplus(logits) - self.y * logits).sum(-1)
        return loglik - 2.5 * torch.log1p(w ** 2 / 4).sum(-1)


class Tempering:
    """Exponent of the importance weights: flat at first, then the real thing."""

    def __init__(self, warmup, floor=0.05):
        self.warmup, self.floor = warmup, floor

    def at(self, step):
        u = min(1.0, (step + 1) / self.warmup)
        return self.floor + (1 - self.floor) * 0.5 * (1 - math.cos(math.pi * u))


def importance_weights(log_ratio, power):
    w = torch.exp(log_ratio - log_ratio.max())
    w = w ** power
    return w / w.sum()


def effective_size(w):
    return 1.0 / (w ** 2).sum()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=18)
    ap.add_argument("--samples", type=int, default=128)
    ap.add_argument("--dim", type=int, default=6)
    ap.add_argument("--log-every", type=int, default=6)
    args = ap.parse_args()

    torch.manual_seed(0)
    device = xm.xla_device()
    flow = Flow(args.dim, 24, 2).to(device)
    target = LogisticPosterior(80, args.dim, device)
    opt = torch.optim.SGD(flow.parameters(), lr=5e-3, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    temper = Tempering(warmup=args.steps)
    pending = []

    for step in range(args.steps):
        opt.zero_grad()
        x, logq = flow.sample(args.samples)
        logp = target(x)
        reverse_kl = (logq - logp).mean()
        w = importance_weights((logp - logq).detach(), temper.at(step))
        forward_kl = -(w * flow.log_prob(x.detach())).sum()
        loss = 0.5 * reverse_kl + 0.5 * forward_kl
        loss.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        opt.step()
        sched.step()
        pending.append(torch.stack([loss.detach(), effective_size(w)]))
        xm.mark_step()
        if (step + 1) % args.log_every == 0:
            loss_v, ess = torch.stack(pending).mean(0).tolist()
            pending.clear()
            print(f"step {step + 1:3d} loss {loss_v:8.3f} ess {ess:6.1f} lr {sched.get_last_lr()[0]:.4f}")


if __name__ == "__main__":
    main()
