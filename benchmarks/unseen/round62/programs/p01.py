"""Growing neural cellular automaton on a small RGBA emblem.

A seed cell is grown by a learned local update rule; a host-side pool keeps
partially grown states around so that the rule also learns to persist.
"""
import argparse
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    size: int = 16
    channels: int = 8
    hidden: int = 32
    batch: int = 4
    pool: int = 32
    fire_rate: float = 0.5
    min_iters: int = 4
    max_iters: int = 16
    lr: float = 2e-3
    steps: int = 20
    seed: int = 17


def make_emblem(size):
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
    yy = (yy - size / 2 + 0.5) / (size / 2)
    xx = (xx - size / 2 + 0.5) / (size / 2)
    r = np.sqrt(xx ** 2 + yy ** 2)
    ring = ((r < 0.75) & (r > 0.35)).astype(np.float32)
    bar = ((np.abs(yy) < 0.12) & (np.abs(xx) < 0.75)).astype(np.float32)
    alpha = np.clip(ring + bar, 0, 1)
    rgb = np.stack([0.9 * ring, 0.3 * ring + 0.5 * bar, 0.8 * bar])
    return np.concatenate([np.clip(rgb, 0, 1) * alpha, alpha[None]])


class UpdateRule(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.fire_rate = cfg.fire_rate
        self.channels = cfg.channels
        sobel = torch.tensor([[-1., 0., 1.], [-2., 0., 2.], [-1., 0., 1.]]) / 8
        ident = torch.zeros(3, 3)
        ident[1, 1] = 1.0
        kernel = torch.stack([ident, sobel, sobel.t()])
        self.register_buffer('kernel',
                             kernel.repeat(cfg.channels, 1, 1).unsqueeze(1))
        self.fc0 = nn.Conv2d(3 * cfg.channels, cfg.hidden, 1)
        self.fc1 = nn.Conv2d(cfg.hidden, cfg.channels, 1, bias=False)
        nn.init.zeros_(self.fc1.weight)

    def alive(self, x):
        return F.max_pool2d(x[:, 3:4], 3, stride=1, padding=1) > 0.1

    def forward(self, x):
        before = self.alive(x)
        y = F.conv2d(x, self.kernel, padding=1, groups=self.channels)
        dx = self.fc1(F.relu(self.fc0(y)))
        fire = torch.rand(x.shape[0], 1, *x.shape[2:], device=x.device)
        x = x + dx * (fire < self.fire_rate)
        return x * (before & self.alive(x))


class SamplePool:

    def __init__(self, cfg, rng):
        self.rng = rng
        self.seed_state = np.zeros((cfg.channels, cfg.size, cfg.size), np.float32)
        self.seed_state[3:, cfg.size // 2, cfg.size // 2] = 1.0
        self.states = np.repeat(self.seed_state[None], cfg.pool, 0)

    def draw(self, n):
        idx = self.rng.choice(len(self.states), n, replace=False)
        batch = self.states[idx].copy()
        batch[0] = self.seed_state
        return idx, torch.from_numpy(batch)

    def put_back(self, idx, states):
        self.states[idx] = states


def normalise_grads(model):
    for p in model.parameters():
        if p.grad is not None:
            p.grad = p.grad / (p.grad.norm() + 1e-8)


def grow(rule, x, n):
    for _ in range(n):
        x = rule(x)
    return x, (x - x.clamp(-2.0, 2.0)).abs().mean()


def train(cfg):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    device = torch_xla.device()
    xm.set_rng_state(cfg.seed)

    rule = UpdateRule(cfg).to(device)
    opt = torch.optim.Adam(rule.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [14], gamma=0.3)
    target = torch.from_numpy(make_emblem(cfg.size)).to(device)
    pool = SamplePool(cfg, rng)

    for step in range(cfg.steps):
        idx, x0 = pool.draw(cfg.batch)
        x0 = x0.to(device)
        n = int(rng.integers(cfg.min_iters, cfg.max_iters + 1))
        x, overflow = grow(rule, x0, n)
        per_sample = (x[:, :4] - target).square().mean(dim=(1, 2, 3))
        loss = per_sample.mean() + 0.1 * overflow
        opt.zero_grad()
        loss.backward()
        normalise_grads(rule)
        opt.step()
        sched.step()
        torch_xla.sync()

        pool.put_back(idx, x.detach().cpu().numpy())
        if step % 5 == 0:
            print(f'step {step:3d}  log10(loss) {np.log10(loss.item()):.3f}')


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--steps', type=int, default=Config.steps)
    parser.add_argument('--seed', type=int, default=Config.seed)
    args = parser.parse_args()
    train(Config(steps=args.steps, seed=args.seed))
