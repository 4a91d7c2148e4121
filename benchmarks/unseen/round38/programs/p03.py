"""Small radiance field fitted to an analytic scene, with an occupancy grid to cut empty space."""
import math

import torch
import torch.nn as nn
import torch_xla

SEED = 5
RAYS = 64
SAMPLES = 12
GRID = 16
STEPS = 20
NEAR, FAR = 0.5, 3.0


class OccupancyGrid:
    def __init__(self, device):
        axis = (torch.arange(GRID) + 0.5) / GRID * 2 - 1
        xx, yy, zz = torch.meshgrid(axis, axis, axis, indexing="ij")
        self.occupied = ((xx ** 2 + yy ** 2 + zz ** 2).sqrt() < 0.75).to(device)

    def query(self, pts):
        inside = (pts.abs() < 1.0).all(dim=-1)
        idx = ((pts + 1) * 0.5 * GRID).long().clamp(0, GRID - 1)
        return inside & self.occupied[idx[..., 0], idx[..., 1], idx[..., 2]]


def positional(x, bands=4):
    freqs = 2.0 ** torch.arange(bands, device=x.device, dtype=x.dtype) * math.pi
    ang = x[..., None] * freqs
    return torch.cat([x, ang.sin().flatten(-2), ang.cos().flatten(-2)], dim=-1)


class Field(nn.Module):
    def __init__(self, width=48, bands=4):
        super().__init__()
        self.bands = bands
        d_in = 3 + 3 * 2 * bands
        self.trunk = nn.Sequential(nn.Linear(d_in, width), nn.ReLU())
        self.density = nn.Linear(width, 1)
        self.color = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, x):
        h = self.trunk(positional(x, self.bands))
        return nn.functional.softplus(self.density(h)).squeeze(-1), torch.sigmoid(self.color(h))


class Renderer(nn.Module):
    def __init__(self, field, grid):
        super().__init__()
        self.field = field
        self.grid = grid

    def forward(self, origins, dirs):
        n = origins.shape[0]
        edges = torch.linspace(NEAR, FAR, SAMPLES + 1, device=origins.device)
        delta = (FAR - NEAR) / SAMPLES
        t = edges[:-1] + torch.rand(n, SAMPLES, device=origins.device) * delta
        pts = origins[:, None, :] + t[..., None] * dirs[:, None, :]

        keep = self.grid.query(pts)
        sigma = torch.zeros(n, SAMPLES, device=pts.device)
        rgb = torch.zeros(n, SAMPLES, 3, device=pts.device)
        sigma_kept, rgb_kept = self.field(pts[keep])
        sigma[keep] = sigma_kept
        rgb[keep] = rgb_kept

        alpha = 1 - torch.exp(-sigma * delta)
        depth = torch.cumsum(sigma * delta, dim=1) - sigma * delta
        trans = torch.exp(-depth)
        weights = alpha * trans
        color = (weights[..., None] * rgb).sum(dim=1)
        return color + (1 - weights.sum(dim=1, keepdim=True)), weights


def sample_rays(gen, n):
    theta = torch.rand(n, generator=gen) * 2 * math.pi
    height = torch.rand(n, generator=gen) * 1.0 - 0.5
    origins = torch.stack([1.8 * theta.cos(), height, 1.8 * theta.sin()], dim=-1)
    target = (torch.rand(n, 3, generator=gen) - 0.5) * 1.4
    dirs = nn.functional.normalize(target - origins, dim=-1)
    b = (origins * dirs).sum(-1)
    disc = b ** 2 - ((origins ** 2).sum(-1) - 0.6 ** 2)
    hit = disc > 0
    dist = -b - disc.clamp(min=0).sqrt()
    normal = (origins + dist[:, None] * dirs) / 0.6
    color = torch.where(hit[:, None], normal * 0.5 + 0.5, torch.ones(n, 3))
    return origins, dirs, color


def main():
    torch.manual_seed(SEED)
    gen = torch.Generator().manual_seed(SEED)
    device = torch_xla.device()

    renderer = Renderer(Field(), OccupancyGrid(device)).to(device)
    optimizer = torch.optim.Adam(renderer.parameters(), lr=3e-3, eps=1e-15)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.985)

    for step in range(STEPS):
        origins, dirs, target = (x.to(device) for x in sample_rays(gen, RAYS))
        pred, weights = renderer(origins, dirs)
        loss = nn.functional.mse_loss(pred, target)
        sparsity = torch.log1p(weights.pow(2)).mean()
        total = loss + 1e-3 * sparsity

        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        scheduler.step()
        torch_xla.sync()

        if (step + 1) % 5 == 0:
            psnr = -10 * math.log10(max(loss.item(), 1e-9))
            print(f"step {step + 1:3d} psnr {psnr:.2f}")


if __name__ == "__main__":
    main()
