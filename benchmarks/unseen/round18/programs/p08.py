"""Neural cellular automaton that grows a small emblem from a single seed cell.

After Mordvintsev et al., "Growing Neural Cellular Automata": a pool of states is
kept so that the automaton also learns to persist, and a part of the batch is
damaged now and then so that it learns to regenerate.
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SIZE = 12
STATE = 8
HIDDEN = 16
POOL = 24
BATCH = 4
MIN_ITER, MAX_ITER = 4, 11


def emblem():
    """RGBA target: a ring with a coloured gradient."""
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, SIZE), torch.linspace(-1, 1, SIZE), indexing="ij")
    r = (xx ** 2 + yy ** 2).sqrt()
    alpha = ((r > 0.35) & (r < 0.8)).float()
    return torch.stack([alpha * (xx + 1) / 2, alpha * (yy + 1) / 2, alpha * 0.3, alpha])


def seed_state(n):
    s = torch.zeros(n, STATE, SIZE, SIZE)
    s[:, 3:, SIZE // 2, SIZE // 2] = 1.0
    return s


class Automaton(nn.Module):
    def __init__(self, fire_rate=0.5):
        super().__init__()
        sobel = torch.tensor([[-1., 0., 1.], [-2., 0., 2.], [-1., 0., 1.]]) / 8
        ident = torch.zeros(3, 3)
        ident[1, 1] = 1
        kernels = torch.stack([ident, sobel, sobel.T]).repeat(STATE, 1, 1).unsqueeze(1)
        self.register_buffer("perception", kernels)
        self.rule = nn.Sequential(nn.Conv2d(3 * STATE, HIDDEN, 1), nn.ReLU(),
                                  nn.Conv2d(HIDDEN, STATE, 1, bias=False))
        nn.init.zeros_(self.rule[-1].weight)
        self.fire_rate = fire_rate

    def step(self, s):
        seen = F.conv2d(s, self.perception, padding=1, groups=STATE)
        fire = (torch.rand_like(s[:, :1]) < self.fire_rate).float()
        return s + self.rule(seen) * fire

    def forward(self, s, iterations):
        for _ in range(iterations):
            s = self.step(s)
        return s


class StatePool:
    def __init__(self, rng, device):
        self.rng = rng
        self.device = device
        self.states = seed_state(POOL).to(device)

    def sample(self):
        idx = torch.tensor(self.rng.sample(range(POOL), BATCH)).to(self.device)
        return idx, self.states.index_select(0, idx)

    def commit(self, idx, new):
        self.states = self.states.index_copy(0, idx, new.detach())


def damage_mask(rng, n):
    """Holes at random places for the first n states of the batch."""
    mask = torch.ones(BATCH, 1, SIZE, SIZE)
    for i in range(n):
        cy, cx = rng.randrange(3, SIZE - 3), rng.randrange(3, SIZE - 3)
        mask[i, :, cy - 2:cy + 2, cx - 2:cx + 2] = 0
    return mask


def pixel_loss(s, target):
    return (s[:, :4] - target).pow(2).mean(dim=(1, 2, 3))


def train(steps=45, probe_every=15):
    torch.manual_seed(0)
    rng = random.Random(0)
    device = torch_xla.device()
    ca = Automaton().to(device)
    target = emblem().to(device)
    fresh = seed_state(BATCH).to(device)
    opt = torch.optim.SGD(ca.rule.parameters(), lr=0.1, momentum=0.9)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    pool = StatePool(rng, device)

    for step in range(1, steps + 1):
        idx, s = pool.sample()
        # the first slot always restarts from the seed
        s = torch.cat([fresh[:1], s[1:]])
        s = s * damage_mask(rng, 2 if step % 5 == 0 else 0).to(device)

        s = ca(s, rng.randint(MIN_ITER, MAX_ITER))
        loss = pixel_loss(s, target).mean()
        opt.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in ca.rule.parameters():
                p.grad /= p.grad.norm() + 1e-8
        opt.step()
        pool.commit(idx, s)
        torch_xla.sync()
        sched.step()

        if step % probe_every == 0:
            with torch.no_grad():
                grown = ca(fresh, MAX_ITER)
                per_state = pixel_loss(grown, target)
                alive = (grown[:, 3] > 0.1).float().mean()
            torch_xla.sync()
            print(f"step {step:3d}  loss {loss.item():.4f}  from seed {per_state.mean().item():.4f}  "
                  f"alive {alive.item():.2f}  lr {sched.get_last_lr()[0]:.3f}")

    return ca


if __name__ == "__main__":
    train()
