"""One-directional unpaired image translation (sketch -> shaded) with an LSGAN loss, XLA version."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

SEED = 1234
IMG = 16
BATCH = 4
STEPS = 40


class Unpaired(Dataset):
    """Domain A: thin binary strokes. Domain B: smooth shaded blobs."""

    def __init__(self, n):
        rng = np.random.default_rng(SEED)
        yy, xx = np.mgrid[0:IMG, 0:IMG] / IMG
        self.a, self.b = [], []
        for _ in range(n):
            cx, cy, r = rng.uniform(0.2, 0.8, 2).tolist() + [rng.uniform(0.1, 0.35)]
            d = np.sqrt((xx - cx) ** 2 + (yy - cy) ** 2)
            self.a.append((np.abs(d - r) < 0.05).astype(np.float32) * 2 - 1)
            self.b.append(np.clip(1.0 - d / (r + 0.2), 0, 1).astype(np.float32) * 2 - 1)

    def __len__(self):
        return len(self.a)

    def __getitem__(self, i):
        j = (i * 7 + 3) % len(self.b)
        return torch.from_numpy(self.a[i])[None], torch.from_numpy(self.b[j])[None]


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1 = nn.Conv2d(c, c, 3, padding=1)
        self.c2 = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return x + self.c2(F.relu(self.c1(x)))


def build_generator(c=8):
    return nn.Sequential(nn.Conv2d(1, c, 5, padding=2), nn.ReLU(), ResBlock(c),
                         nn.Conv2d(c, 1, 5, padding=2), nn.Tanh())


def build_discriminator(c=8):
    return nn.Sequential(nn.Conv2d(1, c, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
                         nn.Conv2d(c, 2 * c, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
                         nn.Conv2d(2 * c, 1, 3, padding=1))


class ImagePool:
    """Buffer of previously generated images, shown to the discriminator instead of the newest ones."""

    def __init__(self, pool_size):
        self.pool_size = pool_size
        self.images = []

    def query(self, images):
        if self.pool_size == 0:
            return images
        out = []
        for image in images.detach():
            image = image.unsqueeze(0)
            if len(self.images) < self.pool_size:
                self.images.append(image)
                out.append(image)
            elif random.uniform(0, 1) > 0.5:
                idx = random.randint(0, self.pool_size - 1)
                out.append(self.images[idx])
                self.images[idx] = image
            else:
                out.append(image)
        return torch.cat(out, 0)


def lsgan(pred, real):
    return F.mse_loss(pred, torch.ones_like(pred) if real else torch.zeros_like(pred))


def set_requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


def linear_decay(step):
    return 1.0 - max(0, step - STEPS // 2) / (STEPS // 2 + 1)


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch_xla.device()
    gen, disc = build_generator().to(device), build_discriminator().to(device)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(disc.parameters(), lr=2e-3, betas=(0.5, 0.999))
    sched = [torch.optim.lr_scheduler.LambdaLR(o, linear_decay) for o in (opt_g, opt_d)]
    pool = ImagePool(12)

    loader = DataLoader(Unpaired(BATCH * STEPS), batch_size=BATCH, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    for step, (real_a, real_b) in enumerate(loader):
        # generator
        set_requires_grad(disc, False)
        fake_b = gen(real_a)
        same_b = gen(real_b)
        loss_g = lsgan(disc(fake_b), True) + 5.0 * F.l1_loss(same_b, real_b)
        opt_g.zero_grad()
        loss_g.backward()
        xm.optimizer_step(opt_g)

        # discriminator
        set_requires_grad(disc, True)
        shown = pool.query(fake_b)
        loss_d = 0.5 * (lsgan(disc(real_b), True) + lsgan(disc(shown), False))
        opt_d.zero_grad()
        loss_d.backward()
        xm.optimizer_step(opt_d)
        for s in sched:
            s.step()

        if step % 10 == 9:
            xm.add_step_closure(
                lambda i, g, d: print(f"step {i} G {g.item():.4f} D {d.item():.4f}", flush=True),
                args=(step, loss_g.detach(), loss_d.detach()))
    xm.wait_device_ops()


if __name__ == "__main__":
    main()
