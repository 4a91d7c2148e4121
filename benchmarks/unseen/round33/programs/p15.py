"""Segmentation of toy street scenes with six classes.

U-Net-ish model, online hard example mining plus a soft Dice term.
Labels use 255 for pixels the annotator skipped.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

CLASSES = 6
IGNORE = 255


class Scenes(Dataset):
    """Rectangles of a few classes on background; rare classes are really rare."""

    def __init__(self, n, size, seed):
        self.n, self.size, self.seed = n, size, seed
        self.freq = np.array([0.45, 0.3, 0.15, 0.06, 0.04])

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        label = np.zeros((self.size, self.size), dtype=np.int64)
        for _ in range(rng.integers(1, 4)):
            c = rng.choice(CLASSES - 1, p=self.freq) + 1
            y, x = rng.integers(0, self.size - 6, 2)
            h, w = rng.integers(4, 12, 2)
            label[y:y + h, x:x + w] = c
        image = rng.normal(0, 0.3, (3, self.size, self.size))
        image += np.stack([label * 0.4, np.cos(label), np.sin(2.0 * label)])
        y, x = rng.integers(0, self.size - 4, 2)
        label[y:y + rng.integers(1, 5), x:x + rng.integers(1, 5)] = IGNORE
        return torch.tensor(image, dtype=torch.float32), torch.from_numpy(label)


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.ReLU())


class SmallUNet(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.down1, self.down2 = block(3, ch), block(ch, 2 * ch)
        self.head = nn.Conv2d(3 * ch, CLASSES, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.avg_pool2d(a, 2))
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.head(torch.cat([a, b], dim=1))


class OhemCrossEntropy(nn.Module):
    def __init__(self, keep=0.25, min_kept=64):
        super().__init__()
        self.keep, self.min_kept = keep, min_kept

    def forward(self, logits, target):
        loss = F.cross_entropy(logits, target.clamp(max=CLASSES - 1), reduction="none")
        valid = target != IGNORE
        loss = (loss * valid).flatten()
        n_keep = max(int(self.keep * valid.sum()), self.min_kept)
        hardest, _ = loss.topk(n_keep)
        return hardest.mean()


class DiceLoss(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        prob = logits.softmax(dim=1)
        valid = (target != IGNORE).float()
        losses = []
        for c in range(CLASSES):
            fg = (target == c).float()
            if fg.sum() == 0:
                continue
            p = prob[:, c] * valid
            inter = (p * fg).sum()
            dice = (2 * inter + self.smooth) / (p.sum() + fg.sum() + self.smooth)
            losses.append(1 - dice)
        return torch.stack(losses).mean()


def poly(step, total, power=0.9):
    return (1 - step / total) ** power


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    data = Scenes(n=64, size=24, seed=21)
    loader = DataLoader(data, batch_size=4, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)

    model = SmallUNet().to(device)
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    opt = torch.optim.SGD(
        [{"params": decay, "weight_decay": 1e-4}, {"params": rest}], lr=0.05, momentum=0.9)
    epochs = 1
    total = epochs * len(loader)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: poly(s, total + 1))
    ohem, dice = OhemCrossEntropy(), DiceLoss()

    for epoch in range(epochs):
        for i, (image, target) in enumerate(loader):
            opt.zero_grad()
            logits = model(image)
            loss = ohem(logits, target) + 0.5 * dice(logits, target)
            loss.backward()
            xm.optimizer_step(opt)
            sched.step()
            if i % 4 == 3:
                xm.add_step_closure(
                    lambda l, n: print(f"iter {n} loss {l.item():.4f}"), args=(loss.detach(), i + 1))


if __name__ == "__main__":
    main()
