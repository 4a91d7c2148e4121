"""Tiny radiance field on a procedural scene: coarse sampling first, then fine."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

IMG = 20
VIEWS = 6
RAYS = 128
COARSE, FINE = 12, 24
SWITCH_AT = 14
STEPS = 60
RENDER_EVERY = 12
CHUNK = 150
NEAR, FAR = 1.0, 3.0


def camera_rays(angle):
    ys, xs = torch.meshgrid(
        torch.linspace(0.6, -0.6, IMG), torch.linspace(-0.6, 0.6, IMG), indexing="ij"
    )
    d = torch.stack([xs, ys, -torch.ones_like(xs)], -1).reshape(-1, 3)
    c, s = math.cos(angle), math.sin(angle)
    rot = torch.tensor([[c, 0, s], [0, 1, 0], [-s, 0, c]], dtype=torch.float32)
    d = F.normalize(d @ rot.T, dim=-1)
    o = (torch.tensor([0.0, 0.0, 2.0]) @ rot.T).expand_as(d)
    return o, d


def ground_truth(o, d):
    """Shaded unit-colour sphere of radius 0.6 on black."""
    b = (o * d).sum(-1)
    disc = b * b - ((o * o).sum(-1) - 0.36)
    hit = disc > 0
    t = -b - disc.clamp(min=0).sqrt()
    n = F.normalize(o + t[:, None] * d, dim=-1)
    return torch.where(hit[:, None], 0.5 + 0.5 * n, torch.zeros(()))


class Encoding(nn.Module):
    def __init__(self, octaves):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(octaves) * math.pi)

    def forward(self, x):
        a = (x[..., None] * self.freq).flatten(-2)
        return torch.cat([x, a.sin(), a.cos()], -1)


class Field(nn.Module):
    def __init__(self, width=32, octaves=3):
        super().__init__()
        self.enc = Encoding(octaves)
        self.trunk = nn.Sequential(
            nn.Linear(3 + 6 * octaves, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.sigma = nn.Linear(width, 1)
        self.rgb = nn.Linear(width + 3, 3)

    def forward(self, pts, dirs):
        h = self.trunk(self.enc(pts))
        sigma = F.softplus(self.sigma(h)).squeeze(-1)
        return sigma, torch.sigmoid(self.rgb(torch.cat([h, dirs], -1)))


def march(field, o, d, samples, jitter):
    width = (FAR - NEAR) / samples
    t = NEAR + width * torch.arange(samples, device=o.device)
    t = t.expand(o.shape[0], samples)
    if jitter:
        t = t + width * torch.rand(o.shape[0], samples, device=o.device)
    pts = o[:, None] + t[..., None] * d[:, None]
    sigma, rgb = field(pts, d[:, None].expand_as(pts))
    alpha = 1 - torch.exp(-sigma * width)
    trans = torch.exp(torch.cumsum(torch.log(1 - alpha + 1e-6), -1))
    trans = torch.cat([torch.ones_like(trans[:, :1]), trans[:, :-1]], -1)
    return ((alpha * trans)[..., None] * rgb).sum(1)


@torch.no_grad()
def render(field, angle, device):
    o, d = camera_rays(angle)
    image = []
    for oc, dc in zip(o.split(CHUNK), d.split(CHUNK)):
        rgb = march(field, oc.to(device), dc.to(device), FINE, jitter=False)
        torch_xla.sync()
        image.append(rgb.cpu())
    return torch.cat(image), ground_truth(o, d)


def main():
    torch.manual_seed(2)
    device = torch_xla.device()
    poses = [2 * math.pi * i / VIEWS for i in range(VIEWS)]
    rays = [camera_rays(a) for a in poses]
    bank_o = torch.cat([o for o, _ in rays])
    bank_d = torch.cat([d for _, d in rays])
    bank_c = ground_truth(bank_o, bank_d)

    field = Field().to(device)
    opt = torch.optim.Adam(field.parameters(), lr=5e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 0.1 ** (s / STEPS))

    for step in range(STEPS):
        pick = torch.randint(len(bank_o), (RAYS,))
        samples = COARSE if step < SWITCH_AT else FINE
        pred = march(field, bank_o[pick].to(device), bank_d[pick].to(device), samples, jitter=True)
        loss = F.mse_loss(pred, bank_c[pick].to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        if (step + 1) % RENDER_EVERY == 0:
            image, truth = render(field, 0.5 + 0.1 * step, device)
            psnr = -10 * math.log10(F.mse_loss(image, truth).item())
            print(f"step {step + 1:3d} samples {samples} loss {loss.item():.4f} psnr {psnr:.2f}")


if __name__ == "__main__":
    main()
