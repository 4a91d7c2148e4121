"""Growing neural cellular automaton that learns a small emblem."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met


class Automaton(nn.Module):

    def __init__(self, channels=8, hidden=16, fire_rate=0.5):
        super().__init__()
        self.channels = channels
        self.fire_rate = fire_rate
        ident = torch.tensor([[0., 0, 0], [0, 1, 0], [0, 0, 0]])
        sobel = torch.tensor([[-1., 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
        bank = torch.stack([ident, sobel, sobel.t()])
        self.register_buffer("bank", bank.repeat(channels, 1, 1).unsqueeze(1))
        self.rule = nn.Conv2d(3 * channels, hidden, 1)
        self.delta = nn.Conv2d(hidden, channels, 1, bias=False)
        nn.init.normal_(self.delta.weight, std=0.02)

    def alive(self, grid):
        return F.max_pool2d(grid[:, 3:4], 3, stride=1, padding=1) > 0.1

    def perceive(self, grid):
        grid = F.pad(grid, (1, 1, 1, 1), mode="circular")
        return F.conv2d(grid, self.bank, groups=self.channels)

    def forward(self, grid, iters):
        for _ in range(iters):
            before = self.alive(grid)
            update = self.delta(F.relu(self.rule(self.perceive(grid))))
            fire = torch.rand(grid.shape[0], 1, *grid.shape[2:], device=grid.device) < self.fire_rate
            grid = grid + update * fire
            grid = grid * (before & self.alive(grid))
        return grid


class Pool:

    def __init__(self, size, channels, side, gen):
        self.gen = gen
        seed = torch.zeros(channels, side, side)
        seed[3:, side // 2 - 1:side // 2 + 2, side // 2] = 1.0
        self.seed = seed
        self.grids = seed.repeat(size, 1, 1, 1)

    def draw(self, n):
        idx = torch.randperm(len(self.grids), generator=self.gen)[:n]
        batch = self.grids[idx].clone()
        batch[0] = self.seed
        return idx, batch

    def put(self, idx, grids):
        self.grids[idx] = grids


def emblem(side):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, side), torch.linspace(-1, 1, side), indexing="ij")
    ring = ((xx**2 + yy**2).sqrt() - 0.5).abs() < 0.25
    return torch.stack([ring * 0.9, ring * xx.abs(), ring * yy.abs(), ring * 1.0])


def main(steps=5, side=12, batch=3, iters=2):
    torch.manual_seed(2)
    dev = xm.xla_device()
    ca = Automaton().to(dev)
    target = emblem(side).to(dev)
    pool = Pool(12, ca.channels, side, torch.Generator().manual_seed(2))
    opt = torch.optim.Adam(ca.parameters(), lr=2e-3, betas=(0.5, 0.95))
    for i in range(steps):
        idx, grid = pool.draw(batch)
        opt.zero_grad()
        grid = ca(grid.to(dev), iters)
        loss = (grid[:, :4] - target).pow(2).mean()
        overflow = (grid - grid.clamp(-2.0, 2.0)).abs().mean()
        (loss + 0.1 * overflow).backward()
        for p in ca.parameters():
            p.grad.div_(p.grad.norm() + 1e-8)
        opt.step()
        torch_xla.sync()
        pool.put(idx, grid.detach().cpu())
        print(i, f"{loss.item():.5f}", met.counter_value("UncachedCompile"))


if __name__ == "__main__":
    main()
