"""Growing neural cellular automaton on a glyph target, with a sample pool.

Follows Mordvintsev et al. (2020): perceive with fixed Sobel filters, stochastic
per-cell update, alive masking, pool of persistent states of which the worst one of
every batch is replaced by the seed.
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

GRID = 16
CHANNELS = 8
POOL = 64
BATCH = 4
STEPS = 22
FIRE_RATE = 0.5
SEED = 20


def glyph():
    """An RGBA ring with a bar through it."""
    lin = torch.linspace(-1, 1, GRID)
    y, x = torch.meshgrid(lin, lin, indexing="ij")
    r = (x ** 2 + y ** 2).sqrt()
    ring = ((r > 0.45) & (r < 0.75)).float()
    bar = ((x - y).abs() < 0.15).float() * (r < 0.75).float()
    alpha = torch.clamp(ring + bar, max=1.0)
    return torch.stack([0.9 * ring, 0.4 * bar, 0.2 * alpha, alpha])


def seed_state(n):
    s = torch.zeros(n, CHANNELS, GRID, GRID)
    s[:, 3:, GRID // 2, GRID // 2] = 1.0
    return s


class Perception(nn.Module):
    def __init__(self):
        super().__init__()
        sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
        ident = torch.zeros(3, 3)
        ident[1, 1] = 1.0
        bank = torch.stack([ident, sobel, sobel.t()])[:, None]
        self.register_buffer("kernel", bank.repeat(CHANNELS, 1, 1, 1))

    def forward(self, x):
        return F.conv2d(x, self.kernel, padding=1, groups=CHANNELS)


class Automaton(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.perceive = Perception()
        self.rule = nn.Sequential(nn.Conv2d(3 * CHANNELS, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, CHANNELS, 1))
        nn.init.zeros_(self.rule[-1].weight)
        nn.init.zeros_(self.rule[-1].bias)

    @staticmethod
    def alive(x):
        return (F.max_pool2d(x[:, 3:4].detach(), 3, stride=1, padding=1) > 0.1).float()

    def tick(self, x, fire):
        dx = self.rule(self.perceive(x))
        x = x + dx * fire
        return x * self.alive(x)

    def forward(self, x, ticks):
        fire = (torch.rand(ticks, *x[:, :1].shape, device=x.device) < FIRE_RATE).float()
        for mask in fire:
            x = self.tick(x, mask)
        return x


class SamplePool:
    def __init__(self, n, device):
        self.state = seed_state(n).to(device)
        self.seed = seed_state(1).to(device)
        self.n = n
        self.gen = torch.Generator().manual_seed(SEED)

    def draw(self, k):
        idx = torch.randperm(self.n, generator=self.gen)[:k].to(self.state.device)
        return idx, self.state.index_select(0, idx)

    def with_fresh_seed(self, batch, target):
        per = (batch[:, :4] - target).pow(2).mean((1, 2, 3))
        worst = F.one_hot(per.argmax(), batch.shape[0]).to(batch.dtype)[:, None, None, None]
        return batch * (1 - worst) + self.seed * worst

    def put(self, idx, batch):
        self.state = self.state.index_copy(0, idx, batch.detach())


def normalize_grads(params):
    for p in params:
        if p.grad is not None:
            p.grad.div_(p.grad.norm() + 1e-8)


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch_xla.device()

    target = glyph().to(device)
    model = Automaton().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.5, 0.5))
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [14], gamma=0.3)
    pool = SamplePool(POOL, device)
    xm.mark_step()

    for it in range(STEPS):
        idx, batch = pool.draw(BATCH)
        batch = pool.with_fresh_seed(batch, target)

        out = model(batch, random.randint(3, 20))
        loss = F.mse_loss(out[:, :4], target.expand(BATCH, -1, -1, -1))
        overflow = (out - out.clamp(-2.0, 2.0)).abs().mean()

        opt.zero_grad()
        (loss + overflow).backward()
        normalize_grads(model.parameters())
        opt.step()
        sched.step()
        pool.put(idx, out)
        xm.mark_step()

        if it % 4 == 3:
            print(f"it {it + 1:3d}  loss {loss.item():.5f}  lr {sched.get_last_lr()[0]:.1e}")


if __name__ == "__main__":
    main()
