"""Fit an image with anisotropic 2D Gaussians, adding detail where the residual asks for it."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

FIELDS = ("mean", "log_scale", "angle", "color", "opacity")


def target_image(size, seed):
    """Soft discs and bars on a gradient background, values in [0, 1]."""
    rng = np.random.default_rng(seed)
    yy, xx = np.meshgrid(np.linspace(0, 1, size), np.linspace(0, 1, size), indexing="ij")
    image = np.stack([0.3 + 0.3 * xx, 0.3 + 0.2 * yy, 0.5 - 0.2 * xx * yy], axis=-1)
    for _ in range(7):
        cx, cy, r = rng.uniform(0.1, 0.9), rng.uniform(0.1, 0.9), rng.uniform(0.04, 0.15)
        disc = 1.0 / (1.0 + np.exp((np.hypot(xx - cx, yy - cy) - r) * 60))
        image += disc[..., None] * (rng.uniform(0, 1, 3) - image)
    for _ in range(3):
        c, w = rng.uniform(0.2, 0.8), rng.uniform(0.01, 0.03)
        bar = np.exp(-(((xx * rng.uniform(-1, 1) + yy) - c) / w) ** 2)
        image += bar[..., None] * (rng.uniform(0, 1, 3) - image)
    return torch.from_numpy(np.clip(image, 0, 1).reshape(-1, 3).astype(np.float32))


class GaussianCloud(nn.Module):
    def __init__(self, mean, log_scale, angle, color, opacity):
        super().__init__()
        self.mean = nn.Parameter(mean)
        self.log_scale = nn.Parameter(log_scale)
        self.angle = nn.Parameter(angle)
        self.color = nn.Parameter(color)
        self.opacity = nn.Parameter(opacity)

    @classmethod
    def random(cls, count):
        return cls(
            torch.rand(count, 2),
            torch.full((count, 2), -2.3) + 0.1 * torch.randn(count, 2),
            torch.zeros(count),
            0.5 * torch.randn(count, 3),
            torch.zeros(count),
        )

    def render(self, pixels):
        delta = pixels[:, None, :] - self.mean[None]
        c, s = torch.cos(self.angle), torch.sin(self.angle)
        u = (c * delta[..., 0] + s * delta[..., 1]) * torch.exp(-self.log_scale[:, 0])
        v = (c * delta[..., 1] - s * delta[..., 0]) * torch.exp(-self.log_scale[:, 1])
        weight = torch.sigmoid(self.opacity) * torch.exp(-0.5 * (u * u + v * v))
        return weight @ torch.sigmoid(self.color) / (weight.sum(dim=1, keepdim=True) + 0.05)


def make_optimizer(cloud):
    rates = {"mean": 4e-3, "log_scale": 2e-2, "angle": 3e-2, "color": 6e-2, "opacity": 4e-2}
    return torch.optim.Adam([{"params": [getattr(cloud, f)], "lr": rates[f]} for f in FIELDS])


class Densifier:
    """Splits the Gaussians that keep moving and drops those that have faded away."""

    def __init__(self, grad_quantile=0.8, min_opacity=0.15, shrink=1.6):
        self.grad_quantile = grad_quantile
        self.min_opacity = min_opacity
        self.shrink = shrink
        self.motion = None

    def observe(self, cloud):
        step = cloud.mean.grad.norm(dim=1)
        self.motion = step if self.motion is None else self.motion + step

    @torch.no_grad()
    def apply(self, cloud):
        fields = {f: getattr(cloud, f).detach().cpu() for f in FIELDS}
        motion = self.motion.cpu()
        self.motion = None

        keep = torch.sigmoid(fields["opacity"]) > self.min_opacity
        split = keep & (motion > torch.quantile(motion, self.grad_quantile))
        children = {f: value[split].clone() for f, value in fields.items()}
        children["mean"] += torch.exp(children["log_scale"]) * torch.randn_like(children["mean"])
        children["log_scale"] -= float(np.log(self.shrink))
        fields["log_scale"][split] -= float(np.log(self.shrink))

        merged = {f: torch.cat([fields[f][keep], children[f]]) for f in FIELDS}
        report = (int(split.sum()), int((~keep).sum()))
        return GaussianCloud(**merged), report


def psnr(pred, target):
    return -10.0 * torch.log10((pred - target).pow(2).mean())


def main(size=24, initial=24, steps=60, densify_from=6, densify_every=6, densify_until=54):
    torch.manual_seed(17)
    device = torch_xla.device()
    axis = torch.linspace(0, 1, size)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    pixels = torch.stack([xx, yy], dim=-1).reshape(-1, 2).to(device)
    target = target_image(size, seed=17).to(device)

    cloud = GaussianCloud.random(initial).to(device)
    optimizer = make_optimizer(cloud)
    densifier = Densifier()

    for step in range(1, steps + 1):
        pred = cloud.render(pixels)
        loss = (pred - target).abs().mean() + 0.5 * (pred - target).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        densifier.observe(cloud)
        xm.mark_step()

        if densify_from <= step <= densify_until and step % densify_every == 0:
            quality = psnr(pred, target).item()
            cloud, (added, removed) = densifier.apply(cloud)
            cloud = cloud.to(device)
            optimizer = make_optimizer(cloud)
            print(
                f"step {step:3d}  loss {loss.item():.4f}  psnr {quality:.2f}  "
                f"gaussians {cloud.mean.shape[0]} (+{added} -{removed})"
            )

    with torch.no_grad():
        final = psnr(cloud.render(pixels), target).item()
    print(f"final psnr {final:.2f} with {cloud.mean.shape[0]} gaussians")


if __name__ == "__main__":
    main()
