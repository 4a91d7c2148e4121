import math
import os

os.environ.setdefault("XLA_IR_DEBUG", "1")
os.environ.setdefault("XLA_HLO_DEBUG", "1")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class PosEnc(nn.Module):
    def __init__(self, n_freqs):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(n_freqs) * math.pi)

    def forward(self, x):
        xb = (x[..., None, :] * self.bands[:, None]).flatten(-2)
        return torch.cat([x, xb.sin(), xb.cos()], -1)


class RadianceField(nn.Module):
    def __init__(self, width=16, n_pos=4, n_dir=2):
        super().__init__()
        self.enc_pos, self.enc_dir = PosEnc(n_pos), PosEnc(n_dir)
        d_pos, d_dir = 3 + 6 * n_pos, 3 + 6 * n_dir
        self.fc1 = nn.Linear(d_pos, width)
        self.fc2 = nn.Linear(width, width)
        self.fc3 = nn.Linear(width + d_pos, width)
        self.sigma = nn.Linear(width, 1)
        self.feat = nn.Linear(width, width)
        self.rgb1 = nn.Linear(width + d_dir, width // 2)
        self.rgb2 = nn.Linear(width // 2, 3)

    def forward(self, pts, dirs):
        e = self.enc_pos(pts)
        h = F.relu(self.fc2(F.relu(self.fc1(e))))
        h = F.relu(self.fc3(torch.cat([h, e], -1)))
        density = F.relu(self.sigma(h)).squeeze(-1)
        d = self.enc_dir(dirs)[:, None].expand(-1, pts.size(1), -1)
        c = F.relu(self.rgb1(torch.cat([self.feat(h), d], -1)))
        return density, torch.sigmoid(self.rgb2(c))


def sample_stratified(o, d, near, far, n):
    edges = torch.linspace(near, far, n + 1, device=o.device)
    z = edges[:-1] + torch.rand(o.size(0), n, device=o.device) * (edges[1:] - edges[:-1])
    return z, o[:, None] + d[:, None] * z[..., None]


def composite(density, rgb, z, white_background=False):
    delta = torch.cat([z[:, 1:] - z[:, :-1], torch.full_like(z[:, :1], 1e10)], -1)
    alpha = 1 - torch.exp(-density * delta)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
    w = alpha * trans
    color = (w[..., None] * rgb).sum(1)
    if white_background:
        color = color + (1 - w.sum(1, keepdim=True))
    depth = (w * z).sum(1)
    return color, depth, w


class Trainer:
    def __init__(self, cfg, device):
        self.cfg = cfg
        self.device = device
        self.field = RadianceField().to(device)
        self.opt = torch.optim.Adam(self.field.parameters(), lr=cfg["lr"], eps=1e-15)

    def render(self, rays):
        o, d = rays[:, :3], F.normalize(rays[:, 3:], dim=-1)
        z, pts = sample_stratified(o, d, self.cfg["near"], self.cfg["far"], self.cfg["samples"])
        density, rgb = self.field(pts, d)
        return composite(density, rgb, z, self.cfg["white_background"])

    def step(self, rays, target):
        self.opt.zero_grad(set_to_none=True)
        color, depth, w = self.render(rays)
        loss = F.mse_loss(color, target)
        loss.backward()
        self.opt.step()
        psnr = -10.0 * torch.log10(loss.detach())
        return loss.detach(), psnr


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    cfg = {"lr": 5e-4, "near": 2.0, "far": 6.0, "samples": 12, "white_background": True}
    trainer = Trainer(cfg, device)
    rays = torch.randn(5, 32, 6)
    rgb = torch.rand(5, 32, 3)
    torch_xla.sync()
    for i in range(5):
        loss, psnr = trainer.step(rays[i].to(device), rgb[i].to(device))
        torch_xla.sync()
    print(f"{loss.item():.5f} {psnr.item():.2f}")


if __name__ == "__main__":
    main()
