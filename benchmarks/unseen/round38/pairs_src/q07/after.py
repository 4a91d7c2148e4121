"""Renders a batch of rays through a coarse and a fine radiance field (evaluation)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

RAYS, N_COARSE, N_FINE = 6, 8, 6
NEAR, FAR = 2.0, 6.0


def encode(x, levels):
    out = [x]
    for k in range(levels):
        out += [torch.sin(x * 2.0 ** k), torch.cos(x * 2.0 ** k)]
    return torch.cat(out, dim=-1)


class Field(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.l1 = nn.Linear(3 * 7, width)
        self.l2 = nn.Linear(width + 3 * 7, width)
        self.sigma = nn.Linear(width, 1)
        self.rgb1 = nn.Linear(width + 3 * 3, 8)
        self.rgb2 = nn.Linear(8, 3)

    def forward(self, pts, dirs):
        p = encode(pts, 3)
        h = F.relu(self.l1(p))
        h = F.relu(self.l2(torch.cat([h, p], dim=-1)))
        d = encode(dirs, 1).unsqueeze(1).expand(-1, pts.shape[1], -1)
        c = F.relu(self.rgb1(torch.cat([h, d], dim=-1)))
        return F.softplus(self.sigma(h).squeeze(-1) - 1.0), torch.sigmoid(self.rgb2(c))


def ray_weights(sigma, t):
    far = torch.full_like(t[:, :1], 1e10)
    delta = torch.cat([t[:, 1:] - t[:, :-1], far], dim=-1)
    alpha = 1.0 - torch.exp(-sigma * delta)
    trans = torch.cumprod(1.0 - alpha + 1e-10, dim=-1)
    return alpha * trans


def composite(w, rgb, t, background=1.0):
    acc = w.sum(dim=-1, keepdim=True)
    colour = (w.unsqueeze(-1) * rgb).sum(dim=1) + (1.0 - acc) * background
    depth = (w * t).sum(dim=-1) / (acc.squeeze(-1) + 1e-8)
    return colour, depth, acc.squeeze(-1)


def sample_pdf(t, w, u):
    """Inverse transform sampling of depths, from the coarse weights."""
    mids = 0.5 * (t[:, 1:] + t[:, :-1])
    w = w[:, 1:-1] + 1e-5
    cdf = torch.cumsum(w / w.sum(dim=-1, keepdim=True), dim=-1)
    cdf = torch.cat([torch.zeros_like(cdf[:, :1]), cdf], dim=-1)
    above = (u.unsqueeze(-1) >= cdf.unsqueeze(1)).sum(dim=-1)
    lo = (above - 1).clamp(min=0)
    hi = above.clamp(max=cdf.shape[-1] - 1)
    c0, c1 = cdf.gather(1, lo), cdf.gather(1, hi)
    m0, m1 = mids.gather(1, lo), mids.gather(1, hi)
    span = torch.where(c1 - c0 < 1e-5, torch.ones_like(c0), c1 - c0)
    return m0 + (u - c0) / span * (m1 - m0)


@torch.no_grad()
def render(coarse, fine, origins, dirs, u):
    dirs = dirs / dirs.norm(dim=-1, keepdim=True)
    t = torch.linspace(NEAR, FAR, N_COARSE, device=origins.device).expand(origins.shape[0], -1)
    sigma, rgb = coarse(origins[:, None] + dirs[:, None] * t[..., None], dirs)
    w = ray_weights(sigma, t)
    rough = composite(w, rgb, t)
    t, _ = torch.sort(torch.cat([t, sample_pdf(t, w, u)], dim=-1), dim=-1)
    sigma, rgb = fine(origins[:, None] + dirs[:, None] * t[..., None], dirs)
    w = ray_weights(sigma, t)
    return rough[:1] + composite(w, rgb, t)


def main(path):
    dev = torch_xla.device()
    torch.manual_seed(31)
    coarse, fine = Field().to(dev).eval(), Field().to(dev).eval()
    torch_xla.sync()
    for step in range(2):
        origins = torch.randn(RAYS, 3).to(dev)
        dirs = torch.randn(RAYS, 3).to(dev)
        u = torch.rand(RAYS, N_FINE).to(dev)
        out = render(coarse, fine, origins, dirs, u)
        if step == 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(list(out)))
        torch_xla.sync()
        print(step, [o.mean().item() for o in out])


if __name__ == "__main__":
    main(sys.argv[1])
