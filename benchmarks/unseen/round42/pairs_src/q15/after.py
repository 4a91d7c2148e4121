"""Radiance field on a handful of rays (coarse samples only), one training step per call."""
import math
import sys

import torch
import torch.nn as nn
import torch_xla

RAYS, S, HID, L_POS, L_DIR = 6, 8, 16, 3, 1
NEAR, FAR = 2.0, 6.0


def encode(x, n):
    out = [x]
    for k in range(n):
        out += [torch.sin(x * (2.0 ** k) * math.pi), torch.cos(x * (2.0 ** k) * math.pi)]
    return torch.cat(out, dim=-1)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        d_pos, d_dir = 3 * (1 + 2 * L_POS), 3 * (1 + 2 * L_DIR)
        self.l1 = nn.Linear(d_pos, HID)
        self.l2 = nn.Linear(HID + d_pos, HID)
        self.sigma = nn.Linear(HID, 1)
        self.c1 = nn.Linear(HID + d_dir, HID // 2)
        self.c2 = nn.Linear(HID // 2, 3)

    def forward(self, pts, dirs):
        x = encode(pts, L_POS)
        h = torch.relu(self.l1(x))
        h = torch.relu(self.l2(torch.cat([h, x], -1)))
        sigma = self.sigma(h).squeeze(-1)
        d = encode(dirs, L_DIR).unsqueeze(1).expand(-1, pts.shape[1], -1)
        rgb = torch.sigmoid(self.c2(torch.relu(self.c1(torch.cat([h, d], -1)))))
        return rgb, sigma


def composite(rgb, sigma, t, dirs, noise):
    delta = t[:, 1:] - t[:, :-1]
    delta = torch.cat([delta, torch.full_like(delta[:, :1], 1e10)], -1)
    delta = delta * dirs.norm(dim=-1, keepdim=True)
    alpha = 1.0 - torch.exp(-torch.relu(sigma + noise) * delta)
    keep = 1.0 - alpha + 1e-10
    w = alpha * torch.cumprod(keep, -1)
    color = (w.unsqueeze(-1) * rgb).sum(1)
    acc = w.sum(-1)
    depth = (w * t).sum(-1)
    return color, acc, depth


def render(field, o, d, jitter, noise):
    edges = torch.linspace(NEAR, FAR, S + 1, device=o.device)
    t = edges[:-1] + (edges[1:] - edges[:-1]) * jitter
    pts = o.unsqueeze(1) + d.unsqueeze(1) * t.unsqueeze(-1)
    view = d / d.norm(dim=-1, keepdim=True)
    rgb, sigma = field(pts, view)
    return composite(rgb, sigma, t, d, noise)


def train_step(field, opt, batch):
    o, d, target, jitter, noise = batch
    opt.zero_grad()
    color, acc, depth = render(field, o, d, jitter, noise)
    color = color + (1.0 - acc.unsqueeze(-1))      # white background
    mse = (color - target).square().mean()
    # nudge rays towards being either empty or opaque
    a = acc.clamp(1e-3, 1 - 1e-3)
    ent = -(a * a.log() + (1 - a) * (1 - a).log()).mean()
    loss = mse + 1e-3 * ent
    loss.backward()
    opt.step()
    psnr = -10.0 * torch.log10(mse.detach())
    return loss.detach(), psnr, depth.detach()


def make_batch(gen, dev):
    o = torch.randn(RAYS, 3, generator=gen) * 0.1
    d = torch.randn(RAYS, 3, generator=gen)
    target = torch.rand(RAYS, 3, generator=gen)
    jitter = torch.rand(RAYS, S, generator=gen)
    noise = torch.randn(RAYS, S, generator=gen)
    return [v.to(dev) for v in (o, d, target, jitter, noise)]


def main(path, steps=3):
    dev = torch_xla.device()
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(32)
    field = Field().to(dev)
    opt = torch.optim.NAdam(field.parameters(), lr=1e-3, foreach=False)
    torch_xla.sync()
    for i in range(steps):
        out = train_step(field, opt, make_batch(gen, dev))
        live = list(out)
        for p in field.parameters():
            st = opt.state[p]
            live += [p, p.grad, st["exp_avg"], st["exp_avg_sq"]]
        if i == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(i, out[0].item(), out[1].item())


if __name__ == "__main__":
    main(sys.argv[1])
