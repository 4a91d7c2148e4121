"""Land-cover classification of multispectral tiles with on-device photometric augmentation."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

CLASSES = ["water", "forest", "crop", "urban", "bare"]


class TileDataset(Dataset):
    """Synthetic four band tiles (R, G, B, NIR) with a class dependent spectrum."""

    def __init__(self, n, size=16, seed=0):
        g = torch.Generator().manual_seed(seed)
        spectra = torch.rand(len(CLASSES), 4, generator=g)
        self.labels = torch.randint(len(CLASSES), (n,), generator=g)
        texture = 0.15 * torch.randn(n, 4, size, size, generator=g)
        self.tiles = (spectra[self.labels][:, :, None, None] + texture).clamp(0, 1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.tiles[i], self.labels[i]


class SpectralJitter(nn.Module):
    """Per-image photometric jitter for reflectance tiles in [0, 1]."""

    def __init__(self, gain=0.2, contrast=0.3, ndvi=0.2, haze=0.15, shade=0.2, size=16):
        super().__init__()
        self.gain, self.contrast, self.ndvi = gain, contrast, ndvi
        self.haze, self.shade = haze, shade
        self.register_buffer("luma", torch.tensor([0.299, 0.587, 0.114, 0.0]).view(1, 4, 1, 1))
        self.register_buffer("nir", torch.tensor([-0.3, -0.2, -0.1, 1.0]).view(1, 4, 1, 1))
        self.register_buffer("ramp", torch.linspace(-1, 1, size).view(1, 1, 1, size))
        self.ops = [self._gain, self._contrast, self._ndvi, self._haze, self._shade]

    def _amount(self, x, scale, channels=1):
        u = torch.rand(x.size(0), channels, 1, 1)
        return ((2 * u - 1) * scale).to(x.device)

    def _gain(self, x):
        return (x * (1 + self._amount(x, self.gain, channels=4))).clamp(0, 1)

    def _contrast(self, x):
        grey = (x * self.luma).sum(1, keepdim=True).mean((2, 3), keepdim=True)
        return (grey + (x - grey) * (1 + self._amount(x, self.contrast))).clamp(0, 1)

    def _ndvi(self, x):
        return (x + self._amount(x, self.ndvi) * self.nir * x).clamp(0, 1)

    def _haze(self, x):
        t = self._amount(x, self.haze).abs()
        return x * (1 - t) + t * 0.85

    def _shade(self, x):
        return (x + self._amount(x, self.shade) * self.ramp).clamp(0, 1)

    def forward(self, x):
        for i in torch.randperm(len(self.ops)).tolist():
            x = self.ops[i](x)
        return x


class ConvNet(nn.Module):
    def __init__(self, in_ch=4, width=8, num_classes=len(CLASSES)):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(in_ch, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.Sequential(
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
        )
        self.head = nn.Linear(2 * width, num_classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


def cosine_lr(step, total, warmup=5):
    if step < warmup:
        return (step + 0.5) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    hits = torch.zeros((), device=device)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        hits += (model(x).argmax(1) == y).sum()
        torch_xla.sync()
    model.train()
    return hits.item() / len(loader.dataset)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=0.05)
    args = p.parse_args()

    torch.manual_seed(13)
    device = torch_xla.device()

    train = DataLoader(TileDataset(128, seed=1), args.batch_size, shuffle=True, drop_last=True)
    val = DataLoader(TileDataset(48, seed=1), args.batch_size)

    model = ConvNet().to(device)
    augment = SpectralJitter().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    total = args.epochs * len(train)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: cosine_lr(s, total))

    for epoch in range(args.epochs):
        running = torch.zeros((), device=device)
        for x, y in train:
            x, y = x.to(device), y.to(device)
            with torch.no_grad():
                x = augment(x)
            loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            running += loss.detach()
            torch_xla.sync()
        acc = evaluate(model, val, device)
        print(f"epoch {epoch}: loss {running.item() / len(train):.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
