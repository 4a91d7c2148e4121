"""GAN for mixed tabular rows. The critic gets an R1 penalty on every `r1_every`-th
update only (lazy regularisation), the generator is averaged for sampling."""
import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    z: int = 8
    cols: int = 6
    cats: int = 4
    batch: int = 64
    steps: int = 80
    g_every: int = 2
    r1_every: int = 8
    r1_gamma: float = 2.0
    ema: float = 0.95
    report_every: int = 20


def rows(n, cfg, rng):
    cat = rng.choice(cfg.cats, n, p=[0.4, 0.3, 0.2, 0.1])
    centre = np.linspace(-1, 1, cfg.cats)[cat]
    num = centre[:, None] * np.arange(1, cfg.cols + 1) / cfg.cols + 0.2 * rng.randn(n, cfg.cols)
    return np.concatenate([num, np.eye(cfg.cats)[cat]], 1).astype(np.float32)


class Generator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cols = cfg.cols
        self.body = nn.Sequential(nn.Linear(cfg.z, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.head = nn.Linear(48, cfg.cols + cfg.cats)

    def forward(self, z):
        o = self.head(self.body(z))
        return torch.cat([o[:, :self.cols], o[:, self.cols:].softmax(-1)], 1)


class Critic(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(cfg.cols + cfg.cats, 48), nn.LeakyReLU(0.2),
                               nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))

    def forward(self, x):
        return self.f(x).squeeze(-1)


def critic_update(critic, gen, opt, real, cfg, with_r1, device):
    with torch.no_grad():
        fake = gen(torch.randn(cfg.batch, cfg.z, device=device))
    if with_r1:
        real = real.requires_grad_(True)
    score = critic(real)
    loss = F.softplus(-score).mean() + F.softplus(critic(fake)).mean()
    if with_r1:
        (g,) = torch.autograd.grad(score.sum(), real, create_graph=True)
        loss = loss + 0.5 * cfg.r1_gamma * cfg.r1_every * g.pow(2).sum(1).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    xm.mark_step()
    return loss.detach()


def generator_update(critic, gen, avg, opt, cfg, device):
    critic.requires_grad_(False)
    loss = F.softplus(-critic(gen(torch.randn(cfg.batch, cfg.z, device=device)))).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    critic.requires_grad_(True)
    with torch.no_grad():
        for a, p in zip(avg.parameters(), gen.parameters()):
            a.lerp_(p, 1 - cfg.ema)
    xm.mark_step()
    return loss.detach()


@torch.no_grad()
def report(avg, data, cfg, device):
    sample = avg(torch.randn(256, cfg.z, device=device))
    freq = F.one_hot(sample[:, cfg.cols:].argmax(1), cfg.cats).float().mean(0)
    stats = torch.cat([sample[:, :cfg.cols].mean(0), freq])
    xm.mark_step()
    return np.abs(stats.cpu().numpy() - data.mean(0)).mean()


def main():
    cfg = Config()
    rng = np.random.RandomState(1)
    torch.manual_seed(1)
    device = xm.xla_device()
    data = rows(2048, cfg, rng)
    gen, critic = Generator(cfg).to(device), Critic(cfg).to(device)
    avg = copy.deepcopy(gen).requires_grad_(False)
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.0, 0.99))
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.99))
    for step in range(cfg.steps):
        real = torch.from_numpy(data[rng.randint(0, len(data), cfg.batch)]).to(device)
        critic_update(critic, gen, opt_c, real, cfg, step % cfg.r1_every == 0, device)
        if step % cfg.g_every == 0:
            generator_update(critic, gen, avg, opt_g, cfg, device)
        if (step + 1) % cfg.report_every == 0:
            print(f"step {step + 1}: marginal error {report(avg, data, cfg, device):.4f}")


if __name__ == "__main__":
    main()
