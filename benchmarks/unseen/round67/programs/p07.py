"""Neural signed-distance field of a leaf scan.

Surface samples carry normals; off-surface samples are drawn in the bounding
box.  The field is fitted with the usual surface, normal, eikonal and
off-surface terms, the latter two ramped over training.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class FitConfig:
    steps: int = 18
    surface_points: int = 64
    volume_points: int = 160
    width: int = 24
    layers: int = 2
    lr: float = 5e-3
    margin: float = 0.25
    eikonal_start: float = 0.01
    eikonal_end: float = 0.08
    seed: int = 41


class LeafScan:
    """Points and normals on a thin curved ellipsoid."""

    radii = torch.tensor([0.8, 0.45, 0.15])

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def surface(self, n):
        d = F.normalize(torch.randn(n, 3, generator=self.gen), dim=1)
        points = d * self.radii
        normals = F.normalize(d / self.radii, dim=1)
        points[:, 2] += 0.2 * points[:, 0] ** 2
        return points, normals

    def volume(self, n):
        return 2.2 * torch.rand(n, 3, generator=self.gen) - 1.1


class FourierFeatures(nn.Module):
    def __init__(self, bands=3):
        super().__init__()
        self.register_buffer("freq", math.pi * 2.0 ** torch.arange(bands))

    def forward(self, x):
        phase = (x.unsqueeze(-1) * self.freq).flatten(1)
        return torch.cat([x, phase.sin(), phase.cos()], dim=1)


class DistanceField(nn.Module):
    def __init__(self, width, layers, bands=3):
        super().__init__()
        self.features = FourierFeatures(bands)
        dims = [3 + 6 * bands] + [width] * layers
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:]))
        self.out = nn.Linear(width, 1)
        nn.init.constant_(self.out.bias, -0.3)

    def forward(self, x):
        h = self.features(x)
        for layer in self.hidden:
            h = F.softplus(layer(h), beta=20)
        return self.out(h).squeeze(-1)


def spatial_gradient(field, x):
    x = x.requires_grad_(True)
    value = field(x)
    grad, = torch.autograd.grad(value.sum(), x, create_graph=True)
    return value, grad


def cosine_ramp(start, end, steps):
    w = 0.5 - 0.5 * torch.cos(torch.linspace(0.0, math.pi, steps))
    return start + (end - start) * w


class SDFLoss(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.margin = cfg.margin
        ramp = cosine_ramp(cfg.eikonal_start, cfg.eikonal_end, cfg.steps)
        self.register_buffer("eikonal_weight", ramp)

    def forward(self, field, surface, normals, volume, step):
        on_value, on_grad = spatial_gradient(field, surface)
        off_value, off_grad = spatial_gradient(field, volume)

        surface_term = on_value.abs().mean()
        normal_term = (1.0 - F.cosine_similarity(on_grad, normals, dim=1)).mean()

        norms = torch.cat([on_grad, off_grad]).norm(dim=1)
        eikonal = self.eikonal_weight[step] * (norms - 1.0).pow(2).mean()

        nearest = torch.cdist(volume.detach(), surface.detach()).amin(dim=1)
        free = off_value[nearest > self.margin]
        off_term = torch.exp(-20.0 * free.abs()).mean()
        return surface_term + 0.1 * normal_term + eikonal + 0.05 * off_term, surface_term


def main():
    cfg = FitConfig()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()

    scan = LeafScan(cfg.seed)
    field = DistanceField(cfg.width, cfg.layers).to(device)
    criterion = SDFLoss(cfg).to(device)
    optimizer = torch.optim.Adam(field.parameters(), lr=cfg.lr)
    milestones = torch.optim.lr_scheduler.MultiStepLR(optimizer, [10, 15], gamma=0.5)

    for step in range(cfg.steps):
        surface, normals = (v.to(device) for v in scan.surface(cfg.surface_points))
        volume = scan.volume(cfg.volume_points).to(device)

        loss, misfit = criterion(field, surface, normals, volume, step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(field.parameters(), 2.0)
        optimizer.step()
        milestones.step()
        torch_xla.sync()

        if step % 6 == 5:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}  surface {misfit.item():.4f}")


if __name__ == "__main__":
    main()
