"""2D U-Net for organ-at-risk contouring on CT slices (TPU / PyTorch-XLA)."""
import os

os.environ["XLA_IR_DEBUG"] = "1"
os.environ["XLA_HLO_DEBUG"] = "1"

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    image_size: int = 32
    classes: int = 3
    width: int = 8
    batch_size: int = 4
    epochs: int = 2
    steps_per_epoch: int = 4
    lr: float = 2e-3
    weight_decay: float = 1e-5
    dropout: float = 0.1
    seed: int = 7


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, dropout=0.0):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.norm1 = nn.InstanceNorm2d(cout, affine=True)
        self.drop = nn.Dropout2d(dropout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.norm2 = nn.InstanceNorm2d(cout, affine=True)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = self.drop(x)
        return F.relu(self.norm2(self.conv2(x)))


class UpBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.up = nn.ConvTranspose2d(cin, cout, 2, stride=2)
        self.conv = nn.Conv2d(2 * cout, cout, 3, padding=1, bias=False)
        self.norm = nn.InstanceNorm2d(cout, affine=True)

    def forward(self, x, skip):
        x = torch.cat([self.up(x), skip], dim=1)
        return F.relu(self.norm(self.conv(x)))


class UNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.enc1 = ConvBlock(1, w)
        self.enc2 = ConvBlock(w, 2 * w, cfg.dropout)
        self.mid = ConvBlock(2 * w, 4 * w, cfg.dropout)
        self.dec2 = UpBlock(4 * w, 2 * w)
        self.dec1 = UpBlock(2 * w, w)
        self.head = nn.Conv2d(w, cfg.classes, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        m = self.mid(F.max_pool2d(e2, 2))
        return self.head(self.dec1(self.dec2(m, e2), e1))


def soft_dice(logits, target, eps=1e-5):
    prob = logits.softmax(dim=1)
    onehot = F.one_hot(target, prob.shape[1]).permute(0, 3, 1, 2).to(prob.dtype)
    inter = (prob * onehot).sum(dim=(0, 2, 3))
    denom = prob.sum(dim=(0, 2, 3)) + onehot.sum(dim=(0, 2, 3))
    return 1.0 - ((2 * inter + eps) / (denom + eps)).mean()


def criterion(logits, target):
    return F.cross_entropy(logits, target) + soft_dice(logits, target)


class CTSlices:
    """Synthetic stand-in for the DICOM reader; HU values are clipped and rescaled."""

    def __init__(self, cfg, length, seed):
        self.cfg, self.length = cfg, length
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        s = self.cfg.image_size
        yy, xx = np.mgrid[:s, :s]
        for _ in range(self.length):
            images, labels = [], []
            for _ in range(self.cfg.batch_size):
                cy, cx = self.rng.uniform(10, s - 10, 2)
                r = np.hypot(yy - cy, xx - cx)
                lab = (r < 8).astype(np.int64) + (r < 4)
                hu = np.clip(self.rng.normal(-100, 80, (s, s)) + 150 * lab, -250, 250)
                images.append(hu[None] / 250.0)
                labels.append(lab)
            yield (torch.from_numpy(np.stack(images)).float(),
                   torch.from_numpy(np.stack(labels)))


@torch.no_grad()
def validate(model, loader, device, classes):
    model.eval()
    scores = []
    for image, label in loader:
        image, label = image.to(device), label.to(device)
        pred = model(image).argmax(dim=1)
        per_class = []
        for c in range(1, classes):
            p, t = pred == c, label == c
            per_class.append(2 * (p & t).sum() / (p.sum() + t.sum()).clamp(min=1))
        dice = torch.stack(per_class).mean()
        torch_xla.sync()
        scores.append(dice.item())
    return float(np.mean(scores))


def train(cfg):
    torch.manual_seed(cfg.seed)
    torch_xla.manual_seed(cfg.seed)
    device = torch_xla.device()
    model = UNet(cfg).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.95,
                                weight_decay=cfg.weight_decay)
    train_set = CTSlices(cfg, cfg.steps_per_epoch, cfg.seed)
    val_set = CTSlices(cfg, 2, cfg.seed + 1)
    total = cfg.epochs * cfg.steps_per_epoch
    torch_xla.sync()

    model.train()
    it, best = 0, 0.0
    for epoch in range(cfg.epochs):
        running = 0.0
        for image, label in train_set:
            image, label = image.to(device), label.to(device)
            for group in optimizer.param_groups:
                group["lr"] = cfg.lr * (1 - it / total) ** 0.9
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(image), label)
            loss.backward()
            optimizer.step()
            torch_xla.sync()
            running += loss.item()
            it += 1
        dice = validate(model, val_set, device, cfg.classes)
        best = max(best, dice)
        print(f"epoch {epoch} loss {running / cfg.steps_per_epoch:.4f} dice {dice:.4f}", flush=True)
    return best


if __name__ == "__main__":
    train(Config())
