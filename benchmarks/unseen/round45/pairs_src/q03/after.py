"""One training step of a small radiance field on ray batches (torch_xla)."""
import os

import torch
import torch.nn as nn
import torch_xla

RAYS, SAMPLES, FREQS, HID = 6, 8, 3, 12
NEAR, FAR = 0.5, 3.0
DUMP_AT = 3
OUT = {"before.py": "a.hlo", "after.py": "b.hlo"}[os.path.basename(__file__)]


def encode(x, num_freqs):
    """[..., 3] -> [..., 3 + 6 * num_freqs]"""
    freqs = 2.0 ** torch.arange(num_freqs, device=x.device, dtype=x.dtype)
    angles = x.unsqueeze(-2) * freqs.unsqueeze(-1)                 # [..., F, 3]
    waves = torch.stack([angles.sin(), angles.cos()], dim=-2)      # [..., F, 2, 3]
    return torch.cat([x, waves.flatten(-3)], dim=-1)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3 + 6 * FREQS, HID)
        self.fc2 = nn.Linear(HID, HID)
        self.sigma = nn.Linear(HID, 1)
        self.rgb = nn.Linear(HID + 3, 3)

    def forward(self, pts, dirs):
        h = torch.relu(self.fc1(encode(pts, FREQS)))
        h = torch.relu(self.fc2(h))
        sigma = nn.functional.softplus(self.sigma(h)).squeeze(-1)
        rgb = torch.sigmoid(self.rgb(torch.cat([h, dirs], dim=-1)))
        return sigma, rgb


def composite(sigma, rgb, t):
    """Volume rendering along the rays."""
    delta = t[:, 1:] - t[:, :-1]
    delta = torch.cat([delta, torch.full_like(delta[:, :1], (FAR - NEAR) / SAMPLES)], dim=1)
    tau = sigma * delta
    # transmittance in log space: prod(1 - alpha) == exp(-sum(tau))
    before = torch.cat([torch.zeros_like(tau[:, :1]), tau[:, :-1].cumsum(dim=1)], dim=1)
    weights = torch.exp(-before) * (1.0 - torch.exp(-tau))
    color = torch.bmm(weights.unsqueeze(1), rgb).squeeze(1)
    depth = (weights * t).sum(dim=1)
    opacity = weights.sum(dim=1)
    color = color + (1.0 - opacity).unsqueeze(-1)
    return color, depth, opacity


def sample(origin, direction, jitter):
    step = (FAR - NEAR) / SAMPLES
    base = NEAR + step * torch.arange(SAMPLES, device=origin.device, dtype=torch.float32)
    t = base.unsqueeze(0) + jitter * step
    pts = origin.unsqueeze(1) + t.unsqueeze(-1) * direction.unsqueeze(1)
    dirs = direction.unsqueeze(1).expand_as(pts)
    return t, pts, dirs


def live(model, opt, extra):
    out = list(extra)
    for p in model.parameters():
        out += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_inf"]]
    return out


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    model = Field().to(device)
    opt = torch.optim.Adamax(model.parameters(), lr=5e-3)
    gen = torch.Generator().manual_seed(2)
    for step in range(6):
        origin = (0.1 * torch.randn(RAYS, 3, generator=gen)).to(device)
        direction = nn.functional.normalize(torch.randn(RAYS, 3, generator=gen), dim=-1).to(device)
        jitter = torch.rand(RAYS, SAMPLES, generator=gen).to(device)
        target = torch.rand(RAYS, 3, generator=gen).to(device)
        mask = (torch.rand(RAYS, generator=gen) > 0.4).float().to(device)

        opt.zero_grad(set_to_none=True)
        t, pts, dirs = sample(origin, direction, jitter)
        sigma, rgb = model(pts, dirs)
        color, depth, opacity = composite(sigma, rgb, t)
        photo = nn.functional.mse_loss(color, target)
        sil = nn.functional.binary_cross_entropy(opacity.clamp(1e-4, 1 - 1e-4), mask)
        loss = photo + 0.1 * sil
        loss.backward()
        opt.step()
        extra = [loss.detach(), photo.detach(), depth.detach()]
        if step == DUMP_AT:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, extra))
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), OUT), "w") as f:
                f.write(text)
        torch_xla.sync()
        psum = sum(p.detach().double().cpu().abs().sum() for p in model.parameters())
        print(step, f"{loss.item():.7f} {photo.item():.7f} {psum:.7f}")


if __name__ == "__main__":
    main()
