"""Grow an emblem from one seed cell with a neural cellular automaton."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SIZE = 10
CHANNELS = 6
BATCH = 4
POOL = 24
STEPS = 16


def emblem(size):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    r = (xx**2 + yy**2).sqrt()
    alpha = (r < 0.8).float()
    return torch.stack([alpha * (0.5 + 0.5 * torch.sin(6 * xx)), alpha * (r < 0.4), alpha])


class CellularAutomaton(nn.Module):
    def __init__(self, channels, hidden=12):
        super().__init__()
        sobel = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]) / 8
        ident = torch.zeros(3, 3)
        ident[1, 1] = 1.0
        kernels = torch.stack([ident, sobel, sobel.t()])[:, None]
        self.register_buffer("kernels", kernels.repeat(channels, 1, 1, 1))
        self.channels = channels
        self.hidden = nn.Conv2d(3 * channels, hidden, 1)
        self.out = nn.Conv2d(hidden, channels, 1, bias=False)
        nn.init.zeros_(self.out.weight)

    def step(self, x):
        seen = F.conv2d(x, self.kernels, padding=1, groups=self.channels)
        return x + self.out(torch.relu(self.hidden(seen)))

    def forward(self, x, iterations):
        for _ in range(iterations):
            x = self.step(x)
        return x


class SamplePool:
    """Earlier results are taken up again, so that the pattern learns to persist."""

    def __init__(self, size, rng):
        self.seed = torch.zeros(CHANNELS, SIZE, SIZE)
        self.seed[2:, SIZE // 2, SIZE // 2] = 1.0
        self.cells = self.seed.repeat(size, 1, 1, 1)
        self.rng = rng

    def take(self, n):
        idx = self.rng.sample(range(len(self.cells)), n)
        batch = self.cells[idx].clone()
        batch[0] = self.seed
        return idx, batch

    def put(self, idx, cells):
        self.cells[idx] = cells


def main():
    torch.manual_seed(31)
    rng = random.Random(31)
    device = torch_xla.device()
    target = emblem(SIZE).to(device)
    model = CellularAutomaton(CHANNELS).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    pool = SamplePool(POOL, rng)

    for it in range(STEPS):
        idx, cells = pool.take(BATCH)
        grown = model(cells.to(device), rng.randint(5, 20))
        loss = F.mse_loss(grown[:, :3], target.expand(BATCH, -1, -1, -1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        grown = grown.detach()
        xm.mark_step()
        pool.put(idx, grown.cpu())
        if it % 4 == 3:
            print(f"iteration {it + 1}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
