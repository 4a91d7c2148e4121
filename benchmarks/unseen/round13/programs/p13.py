"""Point-cloud autoencoder trained with an entropic optimal-transport reconstruction loss."""
import math

import torch
import torch.nn as nn
import torch_xla

CFG = dict(points=24, batch=6, latent=12, eps=0.25, max_iter=12, thresh=1e-2, lr=3e-3, steps=22, log_every=6)


class SharedMLP(nn.Module):
    def __init__(self, *dims):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:]))
        self.norms = nn.ModuleList(nn.LayerNorm(b) for b in dims[1:])

    def forward(self, x):
        for lin, norm in zip(self.layers, self.norms):
            x = torch.relu(norm(lin(x)))
        return x


class PointAE(nn.Module):
    def __init__(self, points, latent):
        super().__init__()
        self.points = points
        self.enc = SharedMLP(3, 24, 48)
        self.to_z = nn.Linear(48, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 64), nn.ReLU(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, points * 3))

    def forward(self, x):
        feat = self.enc(x).amax(dim=1)
        return self.dec(self.to_z(feat)).view(-1, self.points, 3)


class SinkhornDistance(nn.Module):
    """Given two empirical measures with n points each, returns the regularised OT cost."""

    def __init__(self, eps, max_iter, thresh):
        super().__init__()
        self.eps = eps
        self.max_iter = max_iter
        self.thresh = thresh

    def M(self, C, u, v):
        return (-C + u.unsqueeze(-1) + v.unsqueeze(-2)) / self.eps

    def forward(self, x, y):
        C = ((x.unsqueeze(-2) - y.unsqueeze(-3)) ** 2).sum(-1)
        n = x.shape[1]
        log_mu = torch.full((x.shape[0], n), -math.log(n), device=x.device)
        log_nu = torch.full_like(log_mu, -math.log(n))
        u = torch.zeros_like(log_mu)
        v = torch.zeros_like(log_nu)
        with torch.no_grad():
            Cd = C.detach()
            for i in range(self.max_iter):
                u1 = u
                u = self.eps * (log_mu - torch.logsumexp(self.M(Cd, u, v), dim=-1)) + u
                v = self.eps * (log_nu - torch.logsumexp(self.M(Cd, u, v).transpose(-2, -1), dim=-1)) + v
                err = (u - u1).abs().sum(-1).mean()
                if err.item() < self.thresh:
                    break
        pi = torch.exp(self.M(Cd, u, v))
        return (pi * C).sum((-2, -1)).mean(), pi


def shapes(batch, points, gen):
    """ellipsoids and boxes with random axes"""
    p = torch.randn(batch, points, 3, generator=gen)
    sphere = p / p.norm(dim=-1, keepdim=True)
    box = p / p.abs().amax(dim=-1, keepdim=True)
    kind = (torch.rand(batch, 1, 1, generator=gen) < 0.5).float()
    axes = 0.3 + torch.rand(batch, 1, 3, generator=gen) * (0.2 + 1.5 * torch.rand(1, generator=gen))
    return (kind * sphere + (1 - kind) * box) * axes


def cosine(step, total):
    return 0.5 * (1 + math.cos(math.pi * step / total))


def train(cfg):
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(5)
    device = torch_xla.device()
    model = PointAE(cfg["points"], cfg["latent"]).to(device)
    criterion = SinkhornDistance(cfg["eps"], cfg["max_iter"], cfg["thresh"])
    optim = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    sched = torch.optim.lr_scheduler.LambdaLR(optim, lambda s: cosine(s, 2 * cfg["steps"]))

    running = torch.zeros((), device=device)
    for step in range(1, cfg["steps"] + 1):
        x = shapes(cfg["batch"], cfg["points"], gen).to(device)
        rec = model(x)
        loss, _ = criterion(rec, x)
        optim.zero_grad()
        loss.backward()
        optim.step()
        sched.step()
        running = 0.9 * running + 0.1 * loss.detach()
        torch_xla.sync()
        if step % cfg["log_every"] == 0:
            print(f"[{step:03d}] ot {loss.item():.4f} avg {running.item():.4f} lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    train(CFG)
