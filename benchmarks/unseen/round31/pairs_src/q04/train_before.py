"""Coarse + fine radiance field fitted to views of an analytic scene."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_COARSE, N_FINE, RAYS = 12, 12, 32
NEAR, FAR = 1.0, 4.0


def encode(x, bands):
    freqs = 2.0 ** torch.arange(bands, dtype=x.dtype, device=x.device)
    angles = (x[..., None, :] * freqs[:, None]).flatten(-2)
    return torch.cat([x, angles.sin(), angles.cos()], dim=-1)


class Field(nn.Module):
    def __init__(self, width=32, xyz_bands=4, dir_bands=2):
        super().__init__()
        self.xyz_bands, self.dir_bands = xyz_bands, dir_bands
        d_xyz, d_dir = 3 * (1 + 2 * xyz_bands), 3 * (1 + 2 * dir_bands)
        self.l1 = nn.Linear(d_xyz, width)
        self.l2 = nn.Linear(width, width)
        self.l3 = nn.Linear(width + d_xyz, width)
        self.sigma = nn.Linear(width, 1)
        self.feat = nn.Linear(width, width)
        self.c1 = nn.Linear(width + d_dir, width // 2)
        self.c2 = nn.Linear(width // 2, 3)

    def forward(self, xyz, dirs):
        e = encode(xyz, self.xyz_bands)
        h = F.relu(self.l2(F.relu(self.l1(e))))
        h = F.relu(self.l3(torch.cat([h, e], -1)))
        sigma = self.sigma(h).squeeze(-1)
        d = encode(dirs, self.dir_bands)[:, None].expand(-1, xyz.shape[1], -1)
        c = F.relu(self.c1(torch.cat([self.feat(h), d], -1)))
        return torch.sigmoid(self.c2(c)), sigma


def composite(rgb, sigma, z, rays_d):
    dists = z[:, 1:] - z[:, :-1]
    dists = torch.cat([dists, torch.full_like(dists[:, :1], 1e10)], -1)
    dists = dists * rays_d.norm(dim=-1, keepdim=True)
    alpha = 1.0 - torch.exp(-F.relu(sigma) * dists)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1.0 - alpha + 1e-10], -1), -1)[:, :-1]
    weights = alpha * trans
    colour = (weights[..., None] * rgb).sum(1)
    colour = colour + (1.0 - weights.sum(-1, keepdim=True))
    return colour, weights


def sample_pdf(bins, weights, u):
    weights = weights + 1e-5
    cdf = torch.cumsum(weights / weights.sum(-1, keepdim=True), -1)
    cdf = torch.cat([torch.zeros_like(cdf[:, :1]), cdf], -1)
    above = (u[:, :, None] >= cdf[:, None, :]).sum(-1).clamp(max=cdf.shape[1] - 1)
    below = (above - 1).clamp(min=0)
    c0, c1 = cdf.gather(1, below), cdf.gather(1, above)
    b0, b1 = bins.gather(1, below), bins.gather(1, above)
    width = c1 - c0
    t = (u - c0) / torch.where(width < 1e-5, torch.ones_like(width), width)
    return b0 + t * (b1 - b0)


def render(coarse, fine, rays_o, rays_d, jitter, u):
    view = F.normalize(rays_d, dim=-1)
    edges = torch.linspace(NEAR, FAR, N_COARSE + 1, device=rays_o.device)
    z = edges[:-1] + (edges[1:] - edges[:-1]) * jitter
    rgb, sigma = coarse(rays_o[:, None] + rays_d[:, None] * z[..., None], view)
    c0, weights = composite(rgb, sigma, z, rays_d)
    mids = 0.5 * (z[:, 1:] + z[:, :-1])
    z_new = sample_pdf(mids, weights[:, 1:-1].detach(), u)
    z_all, _ = torch.sort(torch.cat([z, z_new], -1), -1)
    rgb, sigma = fine(rays_o[:, None] + rays_d[:, None] * z_all[..., None], view)
    c1, _ = composite(rgb, sigma, z_all, rays_d)
    return c0, c1


def ray_batches(steps, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        az = rng.uniform(0, 2 * np.pi)
        eye = 2.5 * np.array([np.cos(az), np.sin(az), 0.4])
        fwd = -eye / np.linalg.norm(eye)
        right = np.cross(fwd, [0, 0, 1.0])
        right /= np.linalg.norm(right)
        up = np.cross(right, fwd)
        px = rng.uniform(-0.6, 0.6, (RAYS, 2))
        d = fwd + px[:, :1] * right + px[:, 1:] * up
        closest = np.linalg.norm(np.cross(d, eye), axis=-1) / np.linalg.norm(d, axis=-1)
        rgb = np.where(closest[:, None] < 0.7, [0.8, 0.3, 0.2], [1.0, 1.0, 1.0])
        batch = (np.broadcast_to(eye, d.shape), d, rgb,
                 rng.uniform(size=(RAYS, N_COARSE)), rng.uniform(size=(RAYS, N_FINE)))
        yield [torch.from_numpy(np.ascontiguousarray(a, np.float32)) for a in batch]


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    coarse, fine = Field().to(device), Field().to(device)
    params = list(coarse.parameters()) + list(fine.parameters())
    opt = torch.optim.Adam(params, lr=5e-4, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.999)
    torch_xla.sync()
    for step, batch in enumerate(ray_batches(5)):
        rays_o, rays_d, target, jitter, u = [t.to(device) for t in batch]
        c0, c1 = render(coarse, fine, rays_o, rays_d, jitter, u)
        loss_fine = F.mse_loss(c1, target)
        loss = loss_fine + F.mse_loss(c0, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        psnr = -10 * np.log10(loss_fine.item())
        xm.master_print(f"{step} loss {loss.item():.5f} psnr {psnr:.2f}")


if __name__ == "__main__":
    main()
