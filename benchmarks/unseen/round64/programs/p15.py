"""Road extraction from aerial tiles: small U-Net, bootstrapped cross-entropy + soft dice."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

cfg = {
    "seed": 31,
    "tile": 32,
    "batch_size": 6,
    "iterations": 28,
    "lr": 0.05,
    "weight_decay": 1e-4,
    "start_warm": 4,
    "end_warm": 40,
    "top_p": 0.15,
    "dice_weight": 0.5,
    "log_every": 4,
}


class AerialTiles(Dataset):
    def __init__(self, n, tile, seed):
        self.n, self.tile, self.seed = n, tile, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.RandomState(self.seed * 100003 + i)
        yy, xx = np.mgrid[0:self.tile, 0:self.tile].astype(np.float32)
        mask = np.zeros((self.tile, self.tile), dtype=bool)
        for _ in range(rng.randint(1, 4)):
            theta, off = rng.uniform(0, np.pi), rng.uniform(-8, 8)
            d = (xx - self.tile / 2) * np.cos(theta) + (yy - self.tile / 2) * np.sin(theta) - off
            mask |= np.abs(d) < rng.uniform(0.8, 2.0)
        img = rng.normal(0.35, 0.15, size=(3, self.tile, self.tile)).astype(np.float32)
        img[:, mask] += 0.3
        return torch.from_numpy(img), torch.from_numpy(mask.astype(np.int64))


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.GroupNorm(4, cout), nn.ReLU())


class RoadNet(nn.Module):
    def __init__(self, width=8, classes=2):
        super().__init__()
        self.enc1 = ConvBlock(3, width)
        self.enc2 = ConvBlock(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec1 = ConvBlock(2 * width, width)
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        s1 = self.enc1(x)
        s2 = self.enc2(F.avg_pool2d(s1, 2))
        return self.out(self.dec1(torch.cat([self.up(s2), s1], dim=1)))


class BootstrappedCE(nn.Module):
    def __init__(self, start_warm, end_warm, top_p):
        super().__init__()
        self.start_warm = start_warm
        self.end_warm = end_warm
        self.top_p = top_p

    def forward(self, logits, target, it):
        if it < self.start_warm:
            return F.cross_entropy(logits, target), 1.0
        raw = F.cross_entropy(logits, target, reduction="none").view(-1)
        if it > self.end_warm:
            this_p = self.top_p
        else:
            span = self.end_warm - self.start_warm
            this_p = self.top_p + (1 - self.top_p) * (self.end_warm - it) / span
        loss, _ = torch.topk(raw, int(raw.numel() * this_p), sorted=False)
        return loss.mean(), this_p


def soft_dice(logits, target, eps=1.0):
    prob = logits.softmax(1)[:, 1].flatten(1)
    gt = target.flatten(1).to(prob.dtype)
    inter = (prob * gt).sum(1)
    return (1 - (2 * inter + eps) / (prob.sum(1) + gt.sum(1) + eps)).mean()


def cycle(loader):
    while True:
        yield from loader


@torch.no_grad()
def iou(model, loader, device):
    model.eval()
    inter = torch.zeros((), device=device)
    union = torch.zeros((), device=device)
    for img, gt in loader:
        pred = model(img.to(device)).argmax(1).bool()
        gt = gt.to(device).bool()
        inter += (pred & gt).sum()
        union += (pred | gt).sum()
        xm.mark_step()
    model.train()
    return (inter / union.clamp(min=1)).item()


def main():
    torch.manual_seed(cfg["seed"])
    device = xm.xla_device()
    train = DataLoader(AerialTiles(120, cfg["tile"], 1), cfg["batch_size"],
                       shuffle=True, drop_last=True)
    val = DataLoader(AerialTiles(24, cfg["tile"], 2), cfg["batch_size"])

    model = RoadNet().to(device)
    criterion = BootstrappedCE(cfg["start_warm"], cfg["end_warm"], cfg["top_p"])
    optimizer = torch.optim.SGD(model.parameters(), cfg["lr"], momentum=0.9,
                                weight_decay=cfg["weight_decay"])
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, cfg["iterations"], power=0.9)

    batches = cycle(train)
    for it in range(cfg["iterations"]):
        img, gt = next(batches)
        img, gt = img.to(device), gt.to(device)
        logits = model(img)
        ce, p = criterion(logits, gt, it)
        loss = ce + cfg["dice_weight"] * soft_dice(logits, gt)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        xm.mark_step()
        if it % cfg["log_every"] == 0:
            print(f"it {it:3d} loss {loss.item():.4f} ce {ce.item():.4f} p {p:.2f}")
    print(f"val IoU {iou(model, val, device):.3f}")


if __name__ == "__main__":
    main()
