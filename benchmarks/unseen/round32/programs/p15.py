"""Small diffusion model for two-dimensional point sets, x0-prediction with self-conditioning.

Every other forward pass (on average) gets the model's own estimate as an additional input, as in
"Analog Bits"; samples are drawn from the moving average of the weights.
"""
import copy
import math
import random

import torch
import torch.nn as nn
import torch_xla

BATCH = 64
STEPS = 48
SAMPLE_EVERY = 12
SAMPLE_STEPS = 6
EMA_DECAY = 0.95


def rings(n, gen):
    radius = torch.where(torch.rand(n, generator=gen) < 0.5, 0.5, 1.0)
    angle = torch.rand(n, generator=gen) * 2 * math.pi
    pts = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return pts + 0.03 * torch.randn(n, 2, generator=gen)


def log_snr(t):
    """Cosine schedule, t in [0, 1]."""
    angle = t * (math.pi / 2 - 0.04) + 0.02
    return -2 * torch.log(torch.tan(angle))


class Denoiser(nn.Module):
    def __init__(self, width=32, n_freq=4):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(n_freq))
        self.inp = nn.Linear(4 + 2 * n_freq, width)
        self.mid = nn.Linear(width, width)
        self.out = nn.Linear(width, 2)
        self.act = nn.SiLU()

    def forward(self, x, t, cond=None):
        if cond is None:
            cond = torch.zeros_like(x)
        phase = t[:, None] * self.freq
        h = torch.cat([x, cond, phase.sin(), phase.cos()], dim=1)
        h = self.act(self.inp(h))
        h = h + self.act(self.mid(h))
        return self.out(h)


class Diffusion:
    def __init__(self, model, device):
        self.model, self.device = model, device

    def coefficients(self, t):
        snr = log_snr(t)
        return torch.sigmoid(snr).sqrt()[:, None], torch.sigmoid(-snr).sqrt()[:, None]

    def loss(self, x0):
        t = torch.rand(x0.shape[0], device=self.device)
        alpha, sigma = self.coefficients(t)
        x_t = alpha * x0 + sigma * torch.randn_like(x0)
        cond = None
        if random.random() < 0.5:
            with torch.no_grad():
                cond = self.model(x_t, t)
        pred = self.model(x_t, t, cond)
        weight = (alpha / sigma).pow(2).clamp(max=5.0)
        return (weight * (pred - x0).pow(2)).mean()

    @torch.no_grad()
    def sample(self, model, n):
        grid = torch.linspace(1.0, 0.0, SAMPLE_STEPS + 1).tolist()
        x = torch.randn(n, 2, device=self.device)
        cond = torch.zeros_like(x)
        for now, nxt in zip(grid[:-1], grid[1:]):
            t = torch.tensor([now]).expand(n).contiguous().to(self.device)
            s = torch.tensor([nxt]).expand(n).contiguous().to(self.device)
            alpha, sigma = self.coefficients(t)
            alpha_s, sigma_s = self.coefficients(s)
            cond = model(x, t, cond)
            eps = (x - alpha * cond) / sigma
            x = alpha_s * cond + sigma_s * eps
            torch_xla.sync()
        return x.cpu()


@torch.no_grad()
def update_average(average, model):
    for a, p in zip(average.parameters(), model.parameters()):
        a.mul_(EMA_DECAY).add_(p, alpha=1 - EMA_DECAY)


def main():
    random.seed(15)
    torch.manual_seed(15)
    gen = torch.Generator().manual_seed(15)
    device = torch_xla.device()

    model = Denoiser().to(device)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10)
    diffusion = Diffusion(model, device)
    torch_xla.sync()

    for step in range(1, STEPS + 1):
        x0 = rings(BATCH, gen).to(device)
        loss = diffusion.loss(x0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        update_average(average, model)
        torch_xla.sync()
        warmup.step()

        if step % SAMPLE_EVERY == 0:
            pts = diffusion.sample(average, 64)
            spread = (pts.norm(dim=1) - 0.75).abs().mean().item()
            print(f"step {step:3d}  loss {loss.item():.4f}  ring distance {spread:.3f}")


if __name__ == "__main__":
    main()
