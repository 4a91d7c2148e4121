"""Adversarial refinement of synthetic patches: a refiner makes rendered digits-like strokes look 'real'.

The discriminator is shown a history of refined patches so that it does not forget old artefacts.
"""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SIZE = 16
BATCH = 4
STEPS = 40


def strokes(rng, n, noisy):
    img = np.zeros((n, 1, SIZE, SIZE), dtype=np.float32)
    for i in range(n):
        p, q = rng.uniform(2, SIZE - 3, (2, 2))
        for t in np.linspace(0, 1, 24):
            y, x = (p * (1 - t) + q * t).round().astype(int)
            img[i, 0, y, x] = 1.0
            if noisy:
                img[i, 0, min(y + 1, SIZE - 1), x] = rng.uniform(0.3, 0.8)
    if noisy:
        img = img * rng.uniform(0.7, 1.0, (n, 1, 1, 1)) + rng.normal(0, 0.08, img.shape)
    return torch.from_numpy(np.clip(img, 0, 1).astype(np.float32) * 2 - 1)


class Res(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.a = nn.Conv2d(ch, ch, 3, padding=1)
        self.b = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x):
        return x + self.b(F.relu(self.a(F.relu(x))))


class Refiner(nn.Module):
    def __init__(self, ch=6):
        super().__init__()
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.blocks = nn.Sequential(Res(ch))
        self.out = nn.Conv2d(ch, 1, 1)

    def forward(self, x):
        return torch.tanh(x + self.out(self.blocks(self.inp(x))))


class PatchCritic(nn.Module):
    def __init__(self, ch=6):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, ch, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, ch * 2, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch * 2, 1, 3, 1, 1),
        )

    def forward(self, x):
        return self.net(x)


class ImagePool:
    """Returns, for each image of a batch, either the image or an older one that it replaces."""

    def __init__(self, pool_size):
        self.pool_size = pool_size
        self.images = []

    def query(self, images):
        if self.pool_size == 0:
            return images
        out = []
        for image in images:
            image = image.detach().unsqueeze(0)
            if len(self.images) < self.pool_size:
                self.images.append(image)
                out.append(image)
            elif random.uniform(0, 1) > 0.5:
                k = random.randint(0, self.pool_size - 1)
                old = self.images[k].clone()
                self.images[k] = image
                out.append(old)
            else:
                out.append(image)
        return torch.cat(out, 0)


def set_requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


def main():
    random.seed(7)
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    device = torch_xla.device()

    refiner, critic = Refiner().to(device), PatchCritic().to(device)
    opt_g = torch.optim.Adam(refiner.parameters(), lr=1e-3, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
    pool = ImagePool(16)

    for step in range(STEPS):
        rendered = strokes(rng, BATCH, noisy=False).to(device)
        real = strokes(rng, BATCH, noisy=True).to(device)

        set_requires_grad(critic, False)
        opt_g.zero_grad()
        fake = refiner(rendered)
        score = critic(fake)
        g_adv = F.mse_loss(score, torch.ones_like(score))
        g_reg = F.l1_loss(fake, rendered)
        (g_adv + 0.5 * g_reg).backward()
        opt_g.step()

        set_requires_grad(critic, True)
        opt_d.zero_grad()
        shown = pool.query(fake)
        s_real, s_fake = critic(real), critic(shown)
        d_loss = 0.5 * (F.mse_loss(s_real, torch.ones_like(s_real)) + F.mse_loss(s_fake, torch.zeros_like(s_fake)))
        d_loss.backward()
        opt_d.step()
        torch_xla.sync()

        if (step + 1) % 10 == 0:
            print(f"step {step + 1:3d} adv {g_adv.item():.3f} reg {g_reg.item():.3f} critic {d_loss.item():.3f}")


if __name__ == "__main__":
    main()
