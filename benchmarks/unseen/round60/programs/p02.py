import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

# Land-cover segmentation on 4-band tiles, multi-scale training.
BANDS, CLASSES = 4, 5
TILE = 32
SCALES = (16, 24, 32)
BATCH = {16: 8, 24: 4, 32: 2}
ACCUM = 2
STEPS = 64
VAL_EVERY = 16
BASE_LR = 0.05


def make_tiles(n, seed):
    """Voronoi-like parcels; every class has its own spectral signature."""
    rng = np.random.default_rng(seed)
    signature = np.random.default_rng(77).normal(size=(CLASSES, BANDS))
    yy, xx = np.mgrid[0:TILE, 0:TILE]
    images, masks = [], []
    for _ in range(n):
        k = int(rng.integers(4, 9))
        cy, cx = rng.uniform(0, TILE, size=(2, k))
        cls = rng.integers(0, CLASSES, size=k)
        d = (yy[None] - cy[:, None, None]) ** 2 + (xx[None] - cx[:, None, None]) ** 2
        mask = cls[d.argmin(0)]
        img = signature[mask].transpose(2, 0, 1) + 0.6 * rng.normal(size=(BANDS, TILE, TILE))
        mask = np.where(rng.random(mask.shape) < 0.03, 255, mask)
        images.append(img.astype(np.float32))
        masks.append(mask.astype(np.int64))
    return np.stack(images), np.stack(masks)


class TileLoader:
    def __init__(self, images, masks, seed):
        self.images, self.masks = images, masks
        self.rng = np.random.default_rng(seed)

    def draw(self, size):
        ids = self.rng.integers(0, len(self.images), size=BATCH[size])
        img = np.empty((len(ids), BANDS, size, size), np.float32)
        msk = np.empty((len(ids), size, size), np.int64)
        for r, i in enumerate(ids):
            top, left = self.rng.integers(0, TILE - size + 1, size=2)
            a = self.images[i, :, top:top + size, left:left + size]
            b = self.masks[i, top:top + size, left:left + size]
            if self.rng.random() < 0.5:
                a, b = a[:, :, ::-1], b[:, ::-1]
            img[r], msk[r] = a, b
        return torch.from_numpy(img), torch.from_numpy(msk)


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.GroupNorm(2, o), nn.ReLU())


class SmallUNet(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.enc1 = conv(BANDS, width)
        self.enc2 = conv(width, 2 * width)
        self.mid = conv(2 * width, 2 * width)
        self.up2 = nn.ConvTranspose2d(2 * width, 2 * width, 2, stride=2)
        self.up1 = nn.ConvTranspose2d(width, width, 2, stride=2)
        self.dec2 = conv(4 * width, width)
        self.dec1 = conv(2 * width, width)
        self.cls = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.avg_pool2d(e1, 2))
        m = self.mid(F.avg_pool2d(e2, 2))
        u = self.dec2(torch.cat([self.up2(m), e2], 1))
        return self.cls(self.dec1(torch.cat([self.up1(u), e1], 1)))


class ConfusionMatrix:
    def __init__(self, device):
        self.mat = torch.zeros(CLASSES, CLASSES, device=device)

    def update(self, pred, target):
        keep = (target != 255).float().flatten()
        p = F.one_hot(pred.flatten(), CLASSES).float()
        t = F.one_hot(target.clamp(max=CLASSES - 1).flatten(), CLASSES).float()
        self.mat += (t * keep[:, None]).t() @ p

    def miou(self):
        m = self.mat.cpu()
        inter = m.diagonal()
        return (inter / (m.sum(0) + m.sum(1) - inter).clamp(min=1)).mean().item()


@torch.no_grad()
def validate(model, images, masks, device, batch=8):
    model.eval()
    conf = ConfusionMatrix(device)
    for i in range(0, len(images), batch):
        x = torch.from_numpy(images[i:i + batch]).to(device)
        y = torch.from_numpy(masks[i:i + batch]).to(device)
        conf.update(model(x).argmax(1), y)
        torch_xla.sync()
    model.train()
    return conf.miou()


def main():
    random.seed(13)
    torch.manual_seed(13)
    device = torch_xla.device()
    loader = TileLoader(*make_tiles(80, seed=1), seed=3)
    val_x, val_y = make_tiles(20, seed=2)
    model = SmallUNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=BASE_LR, momentum=0.9, weight_decay=1e-4)
    torch_xla.sync()

    for step in range(STEPS):
        for group in opt.param_groups:
            group["lr"] = BASE_LR * (1.0 - step / STEPS) ** 0.9
        size = random.choice(SCALES)
        aux = 0.4 if step < STEPS // 2 else 0.4 * (1.0 - (step - STEPS // 2) / STEPS)
        for micro in range(ACCUM):
            x, y = loader.draw(size)
            x, y = x.to(device), y.to(device)
            logits = model(x)
            ce = F.cross_entropy(logits, y, ignore_index=255)
            prob = logits.softmax(1)
            smooth = (prob[:, :, 1:] - prob[:, :, :-1]).abs().mean()
            loss = (ce + aux * smooth) / ACCUM
            loss.backward()
            if micro == ACCUM - 1:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
                opt.step()
                opt.zero_grad()
            torch_xla.sync()
        if (step + 1) % VAL_EVERY == 0:
            print(f"step {step + 1} size {size} loss {loss.item() * ACCUM:.4f} "
                  f"mIoU {validate(model, val_x, val_y, device):.4f}")


if __name__ == "__main__":
    main()
