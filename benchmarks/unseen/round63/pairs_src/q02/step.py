"""Land-cover segmentation on four-band tiles: U-Net, dice + cross entropy, a validation pass after every epoch."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CLASSES = 4
IGNORE = 255


class Block(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
            nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, bands=4, classes=CLASSES, width=6):
        super().__init__()
        self.down1 = Block(bands, width)
        self.down2 = Block(width, 2 * width)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.merge = Block(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        return self.head(self.merge(torch.cat([a, self.up(b)], 1)))


def criterion(logits, target):
    valid = target != IGNORE
    safe = torch.where(valid, target, torch.zeros_like(target))
    ce = F.cross_entropy(logits, safe, reduction="none")
    ce = (ce * valid).sum() / valid.sum().clamp(min=1)
    prob = logits.softmax(1) * valid.unsqueeze(1)
    onehot = F.one_hot(safe, CLASSES).permute(0, 3, 1, 2) * valid.unsqueeze(1)
    inter = (prob * onehot).sum((0, 2, 3))
    total = (prob + onehot).sum((0, 2, 3))
    dice = 1 - ((2 * inter + 1) / (total + 1)).mean()
    return ce + 0.5 * dice


class Tiles:
    def __init__(self, n, batch, seed):
        self.n, self.batch, self.rng = n, batch, np.random.default_rng(seed)

    def __iter__(self):
        for _ in range(self.n):
            x = self.rng.normal(size=(self.batch, 4, 16, 16)).astype(np.float32)
            y = self.rng.integers(0, CLASSES, (self.batch, 16, 16))
            y[self.rng.random(y.shape) < 0.05] = IGNORE
            yield torch.from_numpy(x), torch.from_numpy(y)


class Loop:
    def __init__(self, device):
        self.device = device
        self.model = UNet().to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
        self.train_loss = torch.zeros((), device=device)
        self.confusion = torch.zeros(CLASSES, CLASSES, device=device)

    def batches(self, tiles):
        for x, y in tiles:
            torch_xla.sync()
            yield x.to(self.device), y.to(self.device)

    def fit_epoch(self, tiles):
        self.model.train()
        for x, y in self.batches(tiles):
            self.opt.zero_grad()
            loss = criterion(self.model(x), y)
            loss.backward()
            self.opt.step()
            self.train_loss.mul_(0.98).add_(loss.detach(), alpha=0.02)

    @torch.no_grad()
    def validate(self, tiles):
        self.model.eval()
        self.confusion.zero_()
        total = torch.zeros((), device=self.device)
        for x, y in self.batches(tiles):
            logits = self.model(x)
            total += criterion(logits, y)
            keep = (y != IGNORE).flatten()
            index = (y * CLASSES + logits.argmax(1)).flatten()
            index = torch.where(keep, index, torch.full_like(index, CLASSES * CLASSES))
            hits = torch.zeros(CLASSES * CLASSES + 1, device=self.device).scatter_add_(0, index, torch.ones_like(index, dtype=torch.float32))
            self.confusion += hits[:-1].view(CLASSES, CLASSES)
        inter = self.confusion.diagonal()
        iou = inter / (self.confusion.sum(0) + self.confusion.sum(1) - inter).clamp(min=1)
        return total / tiles.n, iou.mean()


def main():
    torch.manual_seed(0)
    loop = Loop(torch_xla.device())
    for epoch in range(2):
        loop.fit_epoch(Tiles(5, 4, seed=epoch))
        loss, miou = loop.validate(Tiles(3, 4, seed=100))
        print(f"epoch {epoch}  train {loop.train_loss.item():.3f}  val {loss.item():.3f}  miou {miou.item():.3f}")


if __name__ == "__main__":
    main()
