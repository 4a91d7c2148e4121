"""Light-weight super resolution with a feature-matching (perceptual) term."""
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def seed_everything(seed):
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    xm.set_rng_state(seed)


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.c2 = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x):
        return x + 0.1 * self.c2(F.relu(self.c1(x)))


class TinyEDSR(nn.Module):
    def __init__(self, ch=8, blocks=1, scale=2):
        super().__init__()
        self.head = nn.Conv2d(3, ch, 3, padding=1)
        self.body = nn.Sequential(*[ResBlock(ch) for _ in range(blocks)])
        self.up = nn.Sequential(nn.Conv2d(ch, 3 * scale * scale, 3, padding=1), nn.PixelShuffle(scale))

    def forward(self, x):
        h = self.head(x)
        return self.up(h + self.body(h))


class FeatureNet(nn.Module):
    """Stand-in for the first VGG stages; weights are frozen."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(),
            nn.AvgPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
        )
        for p in self.parameters():
            p.requires_grad_(False)

    def forward(self, x):
        return self.features(x)


class PerceptualLoss(nn.Module):
    def __init__(self, net, layers=(1, 4), weights=(1.0, 0.5)):
        super().__init__()
        self.net = net.eval()
        self.layers = layers
        self.weights = weights
        self.feats = {}
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def _save_as(self, idx):
        def hook(module, inputs, output):
            self.feats[idx].append(output)
        return hook

    def _collect(self, x):
        self.feats = {idx: [] for idx in self.layers}
        for idx in self.layers:
            self.net.features[idx].register_forward_hook(self._save_as(idx))
        self.net((x - self.mean) / self.std)
        return self.feats

    @staticmethod
    def _gram(f):
        b, c, h, w = f.shape
        f = f.reshape(b, c, h * w)
        return f @ f.transpose(1, 2) / (c * h * w)

    def forward(self, sr, hr):
        with torch.no_grad():
            target = self._collect(hr)
        pred = self._collect(sr)
        loss = sr.new_zeros(())
        for idx, w in zip(self.layers, self.weights):
            terms = [F.l1_loss(a, b) + F.mse_loss(self._gram(a), self._gram(b))
                     for a, b in zip(pred[idx], target[idx])]
            loss = loss + w * torch.stack(terms).mean()
        return loss


class Trainer:
    def __init__(self, model, device, lr=1e-3, lambda_feat=0.1, feat_every=3):
        self.device = device
        self.model = model.to(device)
        self.perceptual = PerceptualLoss(FeatureNet()).to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr, betas=(0.9, 0.99))
        self.lambda_feat = lambda_feat
        self.feat_every = feat_every
        self.seen = 0

    def step(self, lr_img, hr_img):
        sr = self.model(lr_img)
        pixel = F.l1_loss(sr, hr_img)
        loss = pixel
        if self.seen % self.feat_every == 0:
            loss = loss + self.lambda_feat * self.feat_every * self.perceptual(sr, hr_img)
        self.seen += 1
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        xm.optimizer_step(self.opt)
        torch_xla.sync()
        return pixel.detach()


def make_patches(n, size=16, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size] / size
    out = np.empty((n, 3, size, size), np.float32)
    for i in range(n):
        for c in range(3):
            fx, fy, ph = rng.uniform(1, 6), rng.uniform(1, 6), rng.uniform(0, 6.28)
            out[i, c] = 0.5 + 0.5 * np.sin(2 * np.pi * (fx * xx + fy * yy) + ph)
    return torch.from_numpy(out)


def main(iters=30, batch=2):
    seed_everything(7)
    device = torch_xla.device()
    patches = make_patches(64)
    trainer = Trainer(TinyEDSR(), device)

    for it in range(iters):
        idx = torch.randint(len(patches), (batch,))
        hr = patches[idx]
        low = F.interpolate(hr, scale_factor=0.5, mode="area")
        pixel = trainer.step(low.to(device), hr.to(device))
        if it % 10 == 9:
            psnr = -10 * np.log10(max(pixel.item() ** 2, 1e-8))
            print(f"iter {it + 1:3d}  L1 {pixel.item():.4f}  ~psnr {psnr:.2f}")


if __name__ == "__main__":
    main()
