"""Coordinate network fitted to an image: coarse-to-fine pyramid, annealed positional encoding, tiled rendering."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

STAGES = [(16, 12), (24, 12), (40, 36)]     # side of the training image, steps
N_FREQ = 6
TILE = 512


def target_image(side):
    t = (torch.arange(side) + 0.5) / side
    y, x = torch.meshgrid(t, t, indexing="ij")
    r = torch.sin(12 * x + 4 * y) * 0.5 + 0.5
    g = torch.exp(-((x - 0.4) ** 2 + (y - 0.6) ** 2) * 12)
    b = ((x * 5).floor() + (y * 5).floor()) % 2
    return torch.stack([r, g, b], -1)


def pixel_coords(side):
    t = (torch.arange(side) + 0.5) / side * 2 - 1
    y, x = torch.meshgrid(t, t, indexing="ij")
    return torch.stack([x, y], -1).view(-1, 2)


class AnnealedEncoding(nn.Module):
    """Nerfies-style window: frequency band k is faded in while `alpha` goes from k to k + 1."""

    def __init__(self, n_freq):
        super().__init__()
        self.n_freq = n_freq
        self.register_buffer("bands", math.pi * 2.0 ** torch.arange(n_freq))
        self.register_buffer("index", torch.arange(n_freq).float())
        self.register_buffer("alpha", torch.zeros(()))

    def set_progress(self, progress):
        self.alpha.copy_(torch.tensor(1.0 + progress * (self.n_freq - 1)))

    def forward(self, x):
        w = 0.5 * (1 - torch.cos(math.pi * (self.alpha - self.index).clamp(0, 1)))
        ang = x.unsqueeze(-1) * self.bands
        enc = torch.cat([ang.sin() * w, ang.cos() * w], -1).flatten(-2)
        return torch.cat([x, enc], -1)


class Field(nn.Module):
    def __init__(self, hidden=48, depth=3):
        super().__init__()
        self.enc = AnnealedEncoding(N_FREQ)
        dims = [2 + 4 * N_FREQ] + [hidden] * depth
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(dims, dims[1:])])
        self.skip = nn.Linear(dims[0], hidden)
        self.rgb = nn.Linear(hidden, 3)

    def forward(self, x):
        e = self.enc(x)
        h = e
        for i, layer in enumerate(self.layers):
            h = layer(h)
            if i == 1:
                h = h + self.skip(e)
            h = F.relu(h)
        return torch.sigmoid(self.rgb(h))


@torch.no_grad()
def render(model, side, device):
    coords = pixel_coords(side)
    pad = (-coords.size(0)) % TILE
    tiles = F.pad(coords, (0, 0, 0, pad)).split(TILE)
    out = []
    for tile in tiles:
        rgb = model(tile.to(device))
        torch_xla.sync()
        out.append(rgb.cpu())
    return torch.cat(out)[:coords.size(0)].view(side, side, 3)


def psnr(a, b):
    return -10 * math.log10(max((a - b).pow(2).mean().item(), 1e-8))


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self, model, step):
        d = min(self.decay, (1 + step) / (8 + step))
        for s, p in zip(self.shadow, model.parameters()):
            s.mul_(d).add_(p, alpha=1 - d)

    def swap(self, model):
        for s, p in zip(self.shadow, model.parameters()):
            s.data, p.data = p.data, s.data


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    model = Field().to(device)
    ema = EMA(model, 0.97)
    opt = torch.optim.Adam(model.parameters(), lr=8e-3)
    total = sum(n for _, n in STAGES)
    full = target_image(STAGES[-1][0])
    step = 0
    for side, n_steps in STAGES:
        coords = pixel_coords(side).to(device)
        colors = target_image(side).view(-1, 3).to(device)
        for _ in range(n_steps):
            model.enc.set_progress(min(1.0, step / (0.5 * total)))
            for group in opt.param_groups:
                group["lr"] = 8e-3 * 0.1 ** (step / total)
            loss = F.mse_loss(model(coords), colors)
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update(model, step)
            torch_xla.sync()
            step += 1
            if step % 10 == 0:
                ema.swap(model)
                image = render(model, STAGES[-1][0], device)
                ema.swap(model)
                xm.master_print(f"step {step} side {side} mse {loss.item():.4f} psnr {psnr(image, full):.2f}")


if __name__ == "__main__":
    main()
