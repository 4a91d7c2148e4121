# small unconditional GAN, non-saturating loss
from dataclasses import dataclass

import torch
from torch import nn, optim
from torch.nn import functional as F
import torch_xla


@dataclass
class Cfg:
    z_dim: int = 8
    ch: int = 8
    res: int = 8
    batch: int = 4
    g_lr: float = 2e-3
    d_lr: float = 2e-3
    r1_gamma: float = 10.0
    d_reg_every: int = 4
    ema: float = 0.99
    iters: int = 6


class G(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc = nn.Linear(c.z_dim, c.ch * 4)
        self.c1 = nn.Conv2d(c.ch, c.ch, 3, padding=1)
        self.c2 = nn.Conv2d(c.ch, 3, 3, padding=1)
        self.ch = c.ch

    def forward(self, z):
        x = F.softplus(self.fc(z)).view(-1, self.ch, 2, 2)
        x = x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        x = F.softplus(self.c1(x))
        x = x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        return torch.tanh(self.c2(x))


class D(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1 = nn.Conv2d(3, c.ch, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(c.ch, c.ch * 2, 3, stride=2, padding=1)
        self.fc = nn.Linear(c.ch * 2 * (c.res // 4) ** 2, 1)

    def forward(self, x):
        x = F.softplus(self.c1(x))
        x = F.softplus(self.c2(x))
        return self.fc(x.flatten(1)).squeeze(1)


def requires_grad(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


def r1_penalty(disc, real):
    real = real.detach().requires_grad_(True)
    score = disc(real)
    (grad,) = torch.autograd.grad(score.sum(), real, create_graph=True)
    return grad.pow(2).flatten(1).sum(1).mean()


@torch.no_grad()
def accumulate(avg, src, decay):
    for pa, ps in zip(avg.parameters(), src.parameters()):
        pa.mul_(decay).add_(ps, alpha=1 - decay)


def main():
    cfg = Cfg()
    torch.manual_seed(11)
    dev = torch_xla.device()
    g, g_ema, d = G(cfg).to(dev), G(cfg).to(dev), D(cfg).to(dev)
    g_ema.load_state_dict(g.state_dict())
    g_opt = optim.Adam(g.parameters(), lr=cfg.g_lr, betas=(0.0, 0.99))
    d_opt = optim.Adam(d.parameters(), lr=cfg.d_lr, betas=(0.0, 0.99))
    torch_xla.sync()

    for it in range(1, cfg.iters + 1):
        real = torch.rand(cfg.batch, 3, cfg.res, cfg.res).mul(2).sub(1).to(dev)
        z_d = torch.randn(cfg.batch, cfg.z_dim).to(dev)
        z_g = torch.randn(cfg.batch, cfg.z_dim).to(dev)
        with torch_xla.step():
            requires_grad(g, False)
            requires_grad(d, True)
            fake = g(z_d)
            d_loss = F.softplus(d(fake)).mean() + F.softplus(-d(real)).mean()
            if it % cfg.d_reg_every == 0:
                d_loss = d_loss + cfg.r1_gamma / 2 * cfg.d_reg_every * r1_penalty(d, real)
            d_opt.zero_grad()
            d_loss.backward()
            d_opt.step()

            requires_grad(g, True)
            requires_grad(d, False)
            g_loss = F.softplus(-d(g(z_g))).mean()
            g_opt.zero_grad()
            g_loss.backward()
            g_opt.step()
            accumulate(g_ema, g, cfg.ema)
        print(it, "d", round(d_loss.item(), 4), "g", round(g_loss.item(), 4))


main()
