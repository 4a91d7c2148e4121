"""Segmentation of synthetic blobs with hard pixel mining."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUM_CLASSES = 4
SIZE = 16


class DoubleConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.LeakyReLU(0.1),
            nn.Conv2d(cout, cout, 3, padding=1),
            nn.LeakyReLU(0.1),
        )

    def forward(self, x):
        return self.net(x)


class UNet(nn.Module):
    def __init__(self, base=8):
        super().__init__()
        self.enc = DoubleConv(1, base)
        self.mid = DoubleConv(base, 2 * base)
        self.up = nn.ConvTranspose2d(2 * base, base, 2, stride=2)
        self.dec = DoubleConv(2 * base, base)
        self.cls = nn.Conv2d(base, NUM_CLASSES, 1)

    def forward(self, x):
        e = self.enc(x)
        m = self.mid(F.max_pool2d(e, 2))
        d = self.dec(torch.cat([self.up(m), e], dim=1))
        return self.cls(d)


class HardPixelLoss(nn.Module):
    """Cross entropy over the hardest pixels of each image."""

    def __init__(self, start=0.75, end=0.25, decay_every=2, decay=0.25):
        super().__init__()
        self.keep = start
        self.end = end
        self.decay_every = decay_every
        self.decay = decay
        self.calls = 0

    def forward(self, logits, target):
        per_pixel = F.cross_entropy(logits, target, reduction="none").flatten(1)
        k = int(per_pixel.shape[1] * self.keep)
        hard, _ = per_pixel.topk(k, dim=1)
        self.calls += 1
        if self.calls % self.decay_every == 0:
            self.keep = max(self.end, self.keep - self.decay)
        return hard.mean()


def make_batch(rng, n=4):
    yy, xx = np.mgrid[:SIZE, :SIZE]
    img = rng.normal(0, 0.2, (n, 1, SIZE, SIZE)).astype(np.float32)
    lab = np.zeros((n, SIZE, SIZE), dtype=np.int64)
    for b in range(n):
        for c in range(1, NUM_CLASSES):
            cy, cx = rng.integers(2, SIZE - 2, 2)
            blob = (yy - cy)**2 + (xx - cx)**2 < 9
            img[b, 0][blob] += c
            lab[b][blob] = c
    return torch.from_numpy(img), torch.from_numpy(lab)


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    dev = torch_xla.device()
    net = UNet().to(dev)
    criterion = HardPixelLoss()
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    running = torch.zeros((), device=dev)
    for it in range(6):
        img, lab = make_batch(rng)
        img, lab = img.to(dev), lab.to(dev)
        loss = criterion(net(img), lab)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running = running * 0.9 + loss.detach() * 0.1
        xm.mark_step()
        if it % 2:
            print(f"[{it}] running loss {running.item():.4f}")


if __name__ == "__main__":
    main()
