import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEVICE = torch_xla.device()

N_RAYS = 16
N_SAMPLES = 12
N_FREQ = 4
NEAR, FAR = 2.0, 6.0
MAX_ITER = 16
C2F = (0.0, 1.0)


def cross(a, b):
    a0, a1, a2 = a.unbind(-1)
    b0, b1, b2 = b.unbind(-1)
    return torch.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], dim=-1)


class PoseDelta(nn.Module):
    """Small learnable translation and axis-angle correction of each camera."""

    def __init__(self, n_views):
        super().__init__()
        self.trans = nn.Embedding(n_views, 3)
        self.rot = nn.Embedding(n_views, 3)
        nn.init.zeros_(self.trans.weight)
        nn.init.zeros_(self.rot.weight)

    def forward(self, view, origins, dirs):
        t = self.trans(view)
        w = self.rot(view)
        dirs = dirs + cross(w, dirs)
        return origins + t, F.normalize(dirs, dim=-1)


class RadianceField(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        in_dim = 3 + 3 * 2 * N_FREQ
        self.trunk = nn.ModuleList([nn.Linear(in_dim, width), nn.Linear(width, width)])
        self.sigma = nn.Linear(width, 1)
        self.rgb = nn.Linear(width + 3, 3)
        self.progress = 0.0

    def band_weight(self, k):
        start, end = C2F
        alpha = (self.progress - start) / (end - start) * N_FREQ
        x = min(max(alpha - k, 0.0), 1.0)
        return 0.5 * (1.0 - math.cos(math.pi * x))

    def encode(self, pts):
        feats = [pts]
        for k in range(N_FREQ):
            arg = pts * (2.0**k * math.pi)
            w = self.band_weight(k)
            feats.append(torch.sin(arg) * w)
            feats.append(torch.cos(arg) * w)
        return torch.cat(feats, dim=-1)

    def forward(self, pts, dirs):
        h = self.encode(pts)
        for layer in self.trunk:
            h = F.relu(layer(h))
        sigma = F.softplus(self.sigma(h).squeeze(-1) - 1.0)
        d = dirs.unsqueeze(1).expand(-1, pts.shape[1], -1)
        rgb = torch.sigmoid(self.rgb(torch.cat([h, d], dim=-1)))
        return sigma, rgb


def render(field, origins, dirs, depths):
    pts = origins.unsqueeze(1) + dirs.unsqueeze(1) * depths.unsqueeze(-1)
    sigma, rgb = field(pts, dirs)
    delta = F.pad(depths[:, 1:] - depths[:, :-1], (0, 1), value=0.5)
    tau = sigma * delta
    trans = torch.exp(-(torch.cumsum(tau, dim=1) - tau))
    weights = trans * (1.0 - torch.exp(-tau))
    color = (weights.unsqueeze(-1) * rgb).sum(dim=1)
    depth = (weights * depths).sum(dim=1)
    return color, depth


def ray_batch(gen, n_views):
    view = torch.randint(0, n_views, (N_RAYS,), generator=gen)
    origins = torch.randn(N_RAYS, 3, generator=gen) * 0.1
    dirs = F.normalize(torch.randn(N_RAYS, 3, generator=gen) + torch.tensor([0.0, 0.0, 2.0]), dim=-1)
    target = torch.rand(N_RAYS, 3, generator=gen)
    edges = torch.linspace(NEAR, FAR, N_SAMPLES + 1)[:-1]
    depths = edges + torch.rand(N_RAYS, N_SAMPLES, generator=gen) * (FAR - NEAR) / N_SAMPLES
    return [t.to(DEVICE) for t in (view, origins, dirs, target, depths)]


def main():
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(11)
    n_views = 6
    field = RadianceField().to(DEVICE)
    poses = PoseDelta(n_views).to(DEVICE)
    opt = torch.optim.Adam(
        [
            {"params": field.parameters(), "lr": 5e-3},
            {"params": poses.parameters(), "lr": 1e-3},
        ],
        betas=(0.9, 0.99),
    )
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.97)
    running = torch.zeros((), device=DEVICE)
    torch_xla.sync()

    for it in range(1, MAX_ITER + 1):
        field.progress = it / MAX_ITER
        view, origins, dirs, target, depths = ray_batch(gen, n_views)
        o, d = poses(view, origins, dirs)
        color, depth = render(field, o, d, depths)
        loss = F.mse_loss(color, target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        running.mul_(0.95).add_(loss.detach(), alpha=0.05)
        torch_xla.sync()

    print("loss", running.item())


if __name__ == "__main__":
    main()
