"""Tiny radiance field: stratified coarse samples, importance-sampled fine ones."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NEAR, FAR = 2.0, 6.0
N_COARSE, N_FINE = 8, 6


def posenc(x, n=2):
    freqs = [x]
    for k in range(n):
        freqs += [torch.sin(2.0 ** k * math.pi * x), torch.cos(2.0 ** k * math.pi * x)]
    return torch.cat(freqs, dim=-1)


class Field(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.trunk = nn.Linear(15, width)
        self.sigma_feat = nn.Linear(width, 1 + width)
        self.rgb = nn.Linear(width + 3, 3)

    def forward(self, pts, dirs):
        h = F.relu(self.trunk(posenc(pts)))
        h = self.sigma_feat(h)
        sigma = F.softplus(h[..., 0] - 1.0)
        d = dirs[:, None, :].expand(-1, pts.shape[1], -1)
        rgb = torch.sigmoid(self.rgb(torch.cat([h[..., 1:], d], dim=-1)))
        return sigma, rgb


def composite(sigma, rgb, z):
    dists = z[:, 1:] - z[:, :-1]
    dists = torch.cat([dists, torch.full_like(dists[:, :1], 1e3)], dim=-1)
    alpha = 1.0 - torch.exp(-sigma * dists)
    trans = torch.exp(-torch.cumsum(sigma * dists, dim=-1))
    trans = torch.cat([torch.ones_like(trans[:, :1]), trans[:, :-1]], dim=-1)
    weights = alpha * trans
    color = (weights[..., None] * rgb).sum(dim=1)
    return color, weights


def sample_pdf(bins, weights, u):
    """Inverse transform sampling; bins [R, M], weights [R, M-1], u [R, K]."""
    w = weights + 1e-5
    pdf = w / w.sum(-1, keepdim=True)
    cdf = torch.cumsum(pdf, -1)
    cdf = torch.cat([torch.zeros_like(cdf[:, :1]), cdf], -1)
    idx = (u[..., None] >= cdf[:, None, :]).sum(-1)
    below = (idx - 1).clamp(min=0)
    above = idx.clamp(max=cdf.shape[-1] - 1)
    c0, c1 = cdf.gather(1, below), cdf.gather(1, above)
    b0, b1 = bins.gather(1, below), bins.gather(1, above)
    den = c1 - c0
    den = torch.where(den < 1e-5, torch.ones_like(den), den)
    return b0 + (u - c0) / den * (b1 - b0)


def render(field, origins, dirs, jitter, u):
    edges = torch.linspace(NEAR, FAR, N_COARSE + 1, device=origins.device)
    z = edges[:-1] + jitter * (edges[1:] - edges[:-1])
    pts = origins[:, None] + z[..., None] * dirs[:, None]
    coarse, weights = composite(*field(pts, dirs), z)

    mids = 0.5 * (z[:, 1:] + z[:, :-1])
    z_fine = sample_pdf(mids, weights[:, 1:-1], u)
    z_all = torch.sort(torch.cat([z, z_fine], dim=-1), dim=-1).values
    pts = origins[:, None] + z_all[..., None] * dirs[:, None]
    fine, _ = composite(*field(pts, dirs), z_all)
    return coarse, fine


def main(path, dump_at=1):
    torch.manual_seed(23)
    dev = xm.xla_device()
    field = Field().to(dev)
    opt = torch.optim.Adam(field.parameters(), lr=5e-4)
    g = torch.Generator().manual_seed(4)
    for step in range(dump_at + 1):
        rays = 12
        origins = torch.randn(rays, 3, generator=g).to(dev)
        dirs = F.normalize(torch.randn(rays, 3, generator=g), dim=-1).to(dev)
        gt = torch.rand(rays, 3, generator=g).to(dev)
        jitter = torch.rand(rays, N_COARSE, generator=g).to(dev)
        u = torch.rand(rays, N_FINE, generator=g).to(dev)
        opt.zero_grad(set_to_none=True)
        coarse, fine = render(field, origins, dirs, jitter, u)
        loss = F.mse_loss(coarse, gt) + F.mse_loss(fine, gt)
        loss.backward()
        opt.step()
        if step == dump_at:
            live = [loss, fine]
            for p in field.parameters():
                s = opt.state[p]
                live += [p, p.grad, s['exp_avg'], s['exp_avg_sq']]
            with open(path, 'w') as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item())


if __name__ == '__main__':
    main(sys.argv[1])
