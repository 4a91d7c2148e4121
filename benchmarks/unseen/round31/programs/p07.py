"""Road-scene segmentation, BiSeNet style: context path plus detail path, multi-scale batches and hard pixels."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

BASE = 32
CLASSES = 3
IGNORE = 255
BATCH = 3
STEPS = 18
SCALES = (0.75, 1.5)


class Roads(Dataset):
    """Sky, road (a trapezium) and the rest; a border of unlabeled pixels."""

    def __init__(self, n):
        rng = np.random.default_rng(8)
        yy, xx = np.mgrid[0:BASE, 0:BASE] / BASE
        self.items = []
        for _ in range(n):
            horizon, mid, slope = rng.uniform(0.3, 0.6), rng.uniform(0.3, 0.7), rng.uniform(0.3, 0.9)
            label = np.full((BASE, BASE), 2)
            label[yy < horizon] = 0
            label[(yy >= horizon) & (np.abs(xx - mid) < slope * (yy - horizon) + 0.04)] = 1
            image = np.array([[0.5, 0.6, 0.9], [0.4, 0.4, 0.4], [0.3, 0.5, 0.2]])[label]
            image = image + rng.normal(0, 0.15, image.shape)
            label[0], label[-1] = IGNORE, IGNORE
            self.items.append((image.transpose(2, 0, 1).astype(np.float32), label.astype(np.int64)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def conv_relu(a, b, stride=1):
    return nn.Sequential(nn.Conv2d(a, b, 3, stride=stride, padding=1), nn.ReLU())


class TwoPath(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.detail = conv_relu(3, c, 2)
        self.context = conv_relu(c, 2 * c, 2)
        self.gate = nn.Conv2d(2 * c, c, 1)
        self.head = nn.Conv2d(c, CLASSES, 1)

    def forward(self, x):
        d = self.detail(x)
        ctx = self.gate(self.context(d).mean((2, 3), keepdim=True))
        return self.head(d * torch.sigmoid(ctx) + d)


class OhemLoss(nn.Module):
    def __init__(self, thresh=0.7, ignore=IGNORE):
        super().__init__()
        self.thresh = -float(np.log(thresh))
        self.ce = nn.CrossEntropyLoss(ignore_index=ignore, reduction="none")

    def forward(self, logits, labels):
        n_min = labels.numel() // 16
        loss = self.ce(logits, labels).view(-1)
        hard = loss[loss > self.thresh]
        if hard.numel() < n_min:
            hard, _ = loss.topk(n_min)
        return hard.mean()


def rescale(image, label):
    ratio = random.uniform(*SCALES)
    size = int(BASE * ratio)
    image = F.interpolate(image, size=(size, size), mode="bilinear", align_corners=False)
    label = F.interpolate(label[:, None].float(), size=(size, size), mode="nearest")
    return image, label[:, 0].long()


def poly(step, power=0.9):
    return (1.0 - step / STEPS) ** power


def main():
    random.seed(4)
    torch.manual_seed(4)
    device = torch_xla.device()
    model = TwoPath().to(device)
    criterion = OhemLoss()
    opt = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, poly)
    loader = DataLoader(Roads(BATCH * STEPS), batch_size=BATCH, shuffle=True, drop_last=True)

    for step, (image, label) in enumerate(loader):
        image, label = image.to(device), label.to(device)
        image, label = rescale(image, label)
        if random.random() < 0.5:
            brightness = random.uniform(0.8, 1.2)
        else:
            brightness = 0.97
        logits = model(image * brightness)
        logits = F.interpolate(logits, size=label.shape[1:], mode="bilinear", align_corners=False)
        loss = criterion(logits, label)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        sched.step()
        if step % 6 == 5:
            print(f"step {step + 1} size {image.shape[-1]} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.3f}")


if __name__ == "__main__":
    main()
