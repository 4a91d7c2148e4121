"""Fit an image with 2D Gaussian splats (additive blending)."""
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

SIZE = 24
LRS = {"xy": 4e-3, "log_scale": 2e-2, "rot": 2e-2, "color": 3e-2, "opacity": 5e-2}


def target_image(size):
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size),
                            indexing="ij")
    r = (xs ** 2 + ys ** 2).sqrt()
    red = 0.5 + 0.5 * torch.sin(9 * r)
    green = (xs * ys > 0).float() * 0.8
    blue = torch.exp(-6 * ((xs - 0.3) ** 2 + (ys + 0.2) ** 2))
    return torch.stack([red, green, blue], dim=-1)


def pixel_grid(size):
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size),
                            indexing="ij")
    return torch.stack([xs, ys], dim=-1).reshape(-1, 2)


class Splats:
    """Holds the Gaussians together with their optimizer."""

    def __init__(self, n, device, gen):
        self.device = device
        init = {
            "xy": torch.rand(n, 2, generator=gen) * 2 - 1,
            "log_scale": torch.full((n, 2), math.log(0.15)),
            "rot": torch.rand(n, generator=gen) * math.pi,
            "color": torch.rand(n, 3, generator=gen),
            "opacity": torch.zeros(n),
        }
        self._assign(init)

    def _assign(self, tensors, state=None):
        self.params = {k: nn.Parameter(v.to(self.device)) for k, v in tensors.items()}
        groups = [{"params": [p], "lr": LRS[k], "name": k} for k, p in self.params.items()]
        self.opt = torch.optim.Adam(groups, eps=1e-12)
        if state is not None:
            for k, p in self.params.items():
                self.opt.state[p] = {
                    "step": state[k]["step"],
                    "exp_avg": state[k]["exp_avg"].to(self.device),
                    "exp_avg_sq": state[k]["exp_avg_sq"].to(self.device),
                }
        self.grad_acc = torch.zeros(len(self), device=self.device)

    def __len__(self):
        return self.params["xy"].shape[0]

    def render(self, grid):
        p = self.params
        d = grid[:, None, :] - p["xy"][None]
        c, s = torch.cos(p["rot"]), torch.sin(p["rot"])
        u = d[..., 0] * c + d[..., 1] * s
        v = -d[..., 0] * s + d[..., 1] * c
        inv = torch.exp(-p["log_scale"])
        power = -0.5 * ((u * inv[:, 0]) ** 2 + (v * inv[:, 1]) ** 2)
        alpha = torch.sigmoid(p["opacity"]) * torch.exp(power)
        return alpha @ p["color"]

    def track(self):
        self.grad_acc = self.grad_acc + self.params["xy"].grad.norm(dim=-1)

    @torch.no_grad()
    def densify_and_prune(self, quantile, min_opacity, gen):
        """Clone the Gaussians with the largest positional gradient, drop the faint ones."""
        host = {k: p.detach().cpu() for k, p in self.params.items()}
        state = {k: {n: (t.cpu() if torch.is_tensor(t) else t)
                     for n, t in self.opt.state[p].items()}
                 for k, p in self.params.items()}
        acc = self.grad_acc.cpu()

        keep = torch.sigmoid(host["opacity"]) > min_opacity
        grow = (acc > torch.quantile(acc, quantile)) & keep
        fresh = {k: v[grow].clone() for k, v in host.items()}
        fresh["log_scale"] -= math.log(1.6)
        std = torch.exp(fresh["log_scale"])
        fresh["xy"] += std * torch.randn(std.shape, generator=gen)

        merged, merged_state = {}, {}
        for k, v in host.items():
            merged[k] = torch.cat([v[keep], fresh[k]])
            pad = torch.zeros_like(fresh[k])
            merged_state[k] = {
                "step": state[k]["step"],
                "exp_avg": torch.cat([state[k]["exp_avg"][keep], pad]),
                "exp_avg_sq": torch.cat([state[k]["exp_avg_sq"][keep], pad]),
            }
        self._assign(merged, merged_state)
        return int(keep.numel() - keep.sum()), int(grow.sum())


def psnr(mse):
    return -10.0 * math.log10(max(mse, 1e-10))


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(21)
    device = torch_xla.device()
    image = target_image(SIZE).reshape(-1, 3).to(device)
    grid = pixel_grid(SIZE).to(device)
    splats = Splats(40, device, gen)

    iterations = 60
    densify_from, densify_every = 6, 6
    for it in range(1, iterations + 1):
        out = splats.render(grid)
        mse = (out - image).pow(2).mean()
        l1 = (out - image).abs().mean()
        loss = 0.8 * l1 + 0.2 * mse
        splats.opt.zero_grad()
        loss.backward()
        splats.track()
        splats.opt.step()
        xm.mark_step()

        if it >= densify_from and it % densify_every == 0:
            dropped, added = splats.densify_and_prune(0.85, 0.02, gen)
            print(f"it {it:3d}  psnr {psnr(mse.item()):.2f}  "
                  f"-{dropped} +{added} -> {len(splats)} splats")

    with torch.no_grad():
        final = (splats.render(grid) - image).pow(2).mean().item()
    print(f"final psnr {psnr(final):.2f} with {len(splats)} splats")


if __name__ == "__main__":
    main()
