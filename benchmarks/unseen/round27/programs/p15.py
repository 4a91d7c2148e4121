import copy
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


@dataclass
class DiffusionConfig:
    timesteps: int = 100
    beta: tuple = (1e-4, 2e-2)
    dim: int = 2
    width: int = 48
    batch: int = 64
    samples: int = 64 * 12
    epochs: int = 2
    lr: float = 1e-3
    ema: float = 0.99
    clip_percentile: float = 0.2
    betas_adam: tuple = field(default=(0.9, 0.98))


def two_moons(n, g):
    a = torch.rand(n, generator=g) * 3.14159
    flip = (torch.rand(n, generator=g) > 0.5).float()
    x = torch.cos(a) * (1 - flip) + (1 - torch.cos(a)) * flip
    y = torch.sin(a) * (1 - flip) + (0.5 - torch.sin(a)) * flip
    return torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2, generator=g)


class Denoiser(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.register_buffer("freqs", torch.exp(torch.linspace(0, 5, w // 2)))
        self.inp = nn.Linear(cfg.dim, w)
        self.time = nn.Sequential(nn.Linear(w, w), nn.SiLU(), nn.Linear(w, w))
        self.blocks = nn.ModuleList(
            [nn.Sequential(nn.LayerNorm(w), nn.Linear(w, 2 * w), nn.SiLU(), nn.Linear(2 * w, w)) for _ in range(1)])
        self.out = nn.Linear(w, cfg.dim)

    def forward(self, x, t):
        ang = t[:, None].float() / 100.0 * self.freqs[None]
        emb = self.time(torch.cat([ang.sin(), ang.cos()], -1))
        h = self.inp(x)
        for blk in self.blocks:
            h = h + blk(h + emb)
        return self.out(h)


class AutoClip:
    """Seetharaman et al. 2020: clip to a percentile of the gradient norms seen so far."""

    def __init__(self, percentile):
        self.percentile = percentile
        self.history = []

    def _norm(self, params):
        return torch.stack([p.grad.detach().pow(2).sum() for p in params]).sum().sqrt()

    @torch.no_grad()
    def __call__(self, params):
        params = [p for p in params if p.grad is not None]
        norm = self._norm(params)
        self.history.append(norm)
        limit = torch.quantile(torch.stack(self.history), self.percentile)
        scale = (limit / (norm + 1e-6)).clamp(max=1.0)
        for p in params:
            p.grad.mul_(scale)
        return norm


class Diffusion:

    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        alphas = 1 - torch.linspace(*cfg.beta, cfg.timesteps)
        self.abar = torch.cumprod(alphas, 0).to(device)
        self.model = Denoiser(cfg).to(device)
        self.ema_model = copy.deepcopy(self.model).requires_grad_(False)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr, betas=cfg.betas_adam)
        self.clipper = AutoClip(cfg.clip_percentile)

    def loss(self, x0):
        t = torch.randint(0, self.cfg.timesteps, (x0.shape[0],), device=self.device)
        ab = self.abar[t].unsqueeze(1)
        noise = torch.randn_like(x0)
        pred = self.model(ab.sqrt() * x0 + (1 - ab).sqrt() * noise, t)
        return (pred - noise).pow(2).mean()

    def training_step(self, x0):
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss(x0)
        loss.backward()
        norm = self.clipper(list(self.model.parameters()))
        self.opt.step()
        with torch.no_grad():
            for e, p in zip(self.ema_model.parameters(), self.model.parameters()):
                e.mul_(self.cfg.ema).add_(p, alpha=1 - self.cfg.ema)
        return loss.detach(), norm


def main(cfg=DiffusionConfig()):
    torch.manual_seed(0)
    device = xm.xla_device()
    data = two_moons(cfg.samples, torch.Generator().manual_seed(5))
    host = DataLoader(TensorDataset(data), batch_size=cfg.batch, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(host, device)
    diff = Diffusion(cfg, device)
    for epoch in range(cfg.epochs):
        for i, (x0,) in enumerate(loader):
            loss, norm = diff.training_step(x0)
            if i % 6 == 5:
                xm.add_step_closure(lambda l, n, i=i: print(f"[{epoch}:{i}] loss {l.item():.4f} |g| {n.item():.3f}"),
                                    args=(loss, norm))


if __name__ == "__main__":
    main()
