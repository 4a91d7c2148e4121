"""Radiance field on a dense feature grid (DVGO / TensoRF style) fitted to renders of a coloured ball."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

AABB = torch.tensor([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]])


def positional(x, n_freq):
    freq = 2.0 ** torch.arange(n_freq, device=x.device, dtype=x.dtype)
    y = (x[..., None] * freq).flatten(-2)
    return torch.cat([x, y.sin(), y.cos()], -1)


class GridField(nn.Module):
    def __init__(self, res=12, app_dim=6, step=0.12, density_shift=-2.0, weight_thres=1e-2):
        super().__init__()
        self.register_buffer("aabb", AABB.clone())
        self.density = nn.Parameter(0.1 * torch.randn(1, 1, res, res, res))
        self.appearance = nn.Parameter(0.1 * torch.randn(1, app_dim, res, res, res))
        self.n_freq = 2
        self.color = nn.Sequential(
            nn.Linear(app_dim + 3 + 2 * 3 * self.n_freq, 32), nn.ReLU(), nn.Linear(32, 3))
        self.step = step
        self.density_shift = density_shift
        self.weight_thres = weight_thres

    def lookup(self, grid, pts):
        """Trilinear read by gathers, pts in [-1, 1]."""
        res = grid.shape[-1]
        flat = grid.flatten(2)[0]
        u = ((pts + 1.0) * 0.5 * (res - 1)).clamp(0, res - 1 - 1e-4)
        lo = u.floor()
        w = u - lo
        lo = lo.long()
        out = 0.0
        for dx in (0, 1):
            for dy in (0, 1):
                for dz in (0, 1):
                    idx = ((lo[..., 0] + dx) * res + lo[..., 1] + dy) * res + lo[..., 2] + dz
                    wx = w[..., 0] if dx else 1 - w[..., 0]
                    wy = w[..., 1] if dy else 1 - w[..., 1]
                    wz = w[..., 2] if dz else 1 - w[..., 2]
                    out = out + flat[:, idx] * (wx * wy * wz)
        return out

    def forward(self, origins, dirs, n_samples=16, background=1.0):
        t = 0.8 + self.step * (torch.arange(n_samples, device=origins.device) + 0.5)
        pts = origins[:, None] + dirs[:, None] * t[None, :, None]
        inside = ((pts > self.aabb[0]) & (pts < self.aabb[1])).all(-1)

        raw = self.lookup(self.density, pts.clamp(-1, 1))[0]
        sigma = F.softplus(raw + self.density_shift) * inside
        alpha = 1.0 - torch.exp(-sigma * self.step * 10.0)
        trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1.0 - alpha + 1e-7], 1), 1)
        weights = alpha * trans[:, :-1]

        rgb = torch.zeros_like(pts)
        visible = weights > self.weight_thres
        feat = self.lookup(self.appearance, pts[visible]).T
        view = positional(dirs[:, None].expand_as(pts)[visible], self.n_freq)
        rgb[visible] = torch.sigmoid(self.color(torch.cat([feat, view], -1)))

        acc = weights.sum(1)
        return (weights[..., None] * rgb).sum(1) + (1.0 - acc)[:, None] * background, acc


class BallScene:
    def __init__(self, seed, radius=0.6):
        self.g = torch.Generator().manual_seed(seed)
        self.radius = radius

    def rays(self, n):
        eye = F.normalize(torch.randn(n, 3, generator=self.g), dim=1) * 1.8
        look = 0.5 * torch.randn(n, 3, generator=self.g)
        d = F.normalize(look - eye, dim=1)
        b = (eye * d).sum(1)
        disc = b ** 2 - (eye.pow(2).sum(1) - self.radius ** 2)
        hit = disc > 0
        point = eye + d * (-b - disc.clamp(min=0).sqrt())[:, None]
        color = torch.where(hit[:, None], 0.5 + 0.5 * point / self.radius, torch.ones(n, 3))
        return eye, d, color


def tv(grid):
    return sum((grid.diff(dim=k) ** 2).mean() for k in (2, 3, 4))


def main(iters=24, rays=64):
    torch.manual_seed(8)
    device = torch_xla.device()
    scene = BallScene(seed=2)
    field = GridField().to(device)
    opt = torch.optim.Adam([
        {"params": [field.density, field.appearance], "lr": 5e-2},
        {"params": field.color.parameters(), "lr": 5e-3},
    ], betas=(0.9, 0.99))
    decay = 0.1 ** (1.0 / iters)

    for it in range(iters):
        o, d, target = (x.to(device) for x in scene.rays(rays))
        pred, _ = field(o, d)
        mse = F.mse_loss(pred, target)
        loss = mse + 1e-3 * tv(field.density)
        opt.zero_grad()
        loss.backward()
        opt.step()
        for group in opt.param_groups:
            group["lr"] *= decay
        xm.mark_step()
        if it % 8 == 7:
            psnr = -10.0 * torch.log10(mse.detach().cpu())
            print(f"iter {it + 1:3d}  psnr {psnr.item():.2f}")


if __name__ == "__main__":
    main()
