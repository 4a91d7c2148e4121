"""Masked-autoencoder pretraining on spectrogram patches."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BANDS, FRAMES, PATCH = 16, 64, 8
TOKENS = (BANDS // PATCH) * (FRAMES // PATCH)
PIXELS = PATCH * PATCH


class Layer(nn.Module):
    def __init__(self, d, heads=2):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = nn.MultiheadAttention(d, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        y = self.n1(x)
        x = x + self.att(y, y, y, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class MaskedAutoencoder(nn.Module):
    def __init__(self, d=32, depth=2):
        super().__init__()
        self.embed = nn.Linear(PIXELS, d)
        self.pos = nn.Parameter(0.02 * torch.randn(1, TOKENS, d))
        self.encoder = nn.Sequential(*[Layer(d) for _ in range(depth)])
        self.blank = nn.Parameter(torch.zeros(1, 1, d))
        self.decoder = nn.Sequential(Layer(d), nn.LayerNorm(d), nn.Linear(d, PIXELS))

    def forward(self, patches, order, visible):
        b, n, _ = patches.shape
        x = self.embed(patches) + self.pos
        idx = order[:, :visible, None].expand(-1, -1, x.shape[-1])
        seen = self.encoder(torch.gather(x, 1, idx))
        full = torch.cat([seen, self.blank.expand(b, n - visible, -1)], 1)
        back = order.argsort(1)[..., None].expand(-1, -1, full.shape[-1])
        out = self.decoder(torch.gather(full, 1, back) + self.pos)
        hidden = torch.ones(b, n, device=patches.device)
        hidden[:, :visible] = 0
        hidden = torch.gather(hidden, 1, order.argsort(1))
        err = (out - patches).pow(2).mean(-1)
        return (err * hidden).sum() / hidden.sum()


class MaskPlan:
    """Mask ratio is drawn around a target value for more robust features."""

    def __init__(self, low=0.5, high=0.85, seed=0):
        self.low, self.high = low, high
        self.rng = random.Random(seed)
        self.g = torch.Generator().manual_seed(seed)

    def draw(self, batch):
        ratio = self.rng.uniform(self.low, self.high)
        visible = max(1, round(TOKENS * (1 - ratio)))
        order = torch.rand(batch, TOKENS, generator=self.g).argsort(1)
        return order, visible


def spectrograms(n, g):
    t = torch.linspace(0, 4 * math.pi, FRAMES)
    centre = BANDS / 2 + 5 * torch.sin(t[None] * (1 + torch.rand(n, 1, generator=g)))
    band = torch.arange(BANDS)[None, :, None]
    return torch.exp(-0.3 * (band - centre[:, None]) ** 2) + 0.05 * torch.rand(n, BANDS, FRAMES, generator=g)


def patchify(x):
    b = x.shape[0]
    x = x.view(b, BANDS // PATCH, PATCH, FRAMES // PATCH, PATCH)
    return x.permute(0, 1, 3, 2, 4).reshape(b, TOKENS, PIXELS)


class Pretrainer:
    def __init__(self, device, batch=8):
        self.device, self.batch = device, batch
        self.g = torch.Generator().manual_seed(3)
        self.plan = MaskPlan(seed=1)
        self.model = MaskedAutoencoder().to(device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1.5e-3, betas=(0.9, 0.95))

    def step(self):
        patches = patchify(spectrograms(self.batch, self.g)).to(self.device)
        order, visible = self.plan.draw(self.batch)
        loss = self.model(patches, order.to(self.device), visible)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss.detach()


def main():
    torch.manual_seed(0)
    trainer = Pretrainer(torch_xla.device())
    torch_xla.sync()
    for step in range(30):
        loss = trainer.step()
        if step % 10 == 9:
            print("step", step + 1, "loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()
