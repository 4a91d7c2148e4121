"""Small CIFAR-style classifier with CutMix, single device."""
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 3407
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Conv2d(cin, cout, 1, stride, bias=False) if stride > 1 or cin != cout else nn.Identity()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.short(x))


class TinyResNet(nn.Module):
    def __init__(self, width=8, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1)
        self.stage1 = ConvBlock(width, width)
        self.stage2 = ConvBlock(width, 2 * width, 2)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = self.stage2(self.stage1(F.relu(self.stem(x))))
        return self.fc(x.mean(dim=(2, 3)))


def rand_bbox(h, w, lam):
    cut = np.sqrt(1.0 - lam)
    ch, cw = int(h * cut), int(w * cut)
    cy, cx = np.random.randint(h), np.random.randint(w)
    y1, y2 = np.clip(cy - ch // 2, 0, h), np.clip(cy + ch // 2, 0, h)
    x1, x2 = np.clip(cx - cw // 2, 0, w), np.clip(cx + cw // 2, 0, w)
    return int(y1), int(y2), int(x1), int(x2)


def cutmix(images, labels, alpha=1.0):
    lam = np.random.beta(alpha, alpha)
    perm = torch.randperm(images.size(0)).to(images.device)
    y1, y2, x1, x2 = rand_bbox(images.size(2), images.size(3), lam)
    images = images.clone()
    images[:, :, y1:y2, x1:x2] = images[perm][:, :, y1:y2, x1:x2]
    lam = 1.0 - (y2 - y1) * (x2 - x1) / (images.size(2) * images.size(3))
    return images, labels, labels[perm], lam


class Trainer:
    def __init__(self, model, device, lr=0.05, epochs=2, steps_per_epoch=8):
        self.model = model.to(device)
        self.device = device
        self.opt = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
        self.epochs, self.steps = epochs, steps_per_epoch

    def batches(self):
        for _ in range(self.steps):
            y = torch.randint(0, 10, (16,))
            x = torch.randn(16, 3, 16, 16) + y.view(-1, 1, 1, 1) * 0.1
            yield x.to(self.device), y.to(self.device)

    def fit(self):
        for epoch in range(self.epochs):
            self.model.train()
            t0 = time.time()
            for x, y in self.batches():
                x, ya, yb, lam = cutmix(x, y)
                out = self.model(x)
                loss = lam * F.cross_entropy(out, ya) + (1 - lam) * F.cross_entropy(out, yb)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                torch_xla.sync()
            print(f"epoch {epoch}: loss {loss.item():.4f} ({time.time() - t0:.1f}s)")


if __name__ == "__main__":
    Trainer(TinyResNet(), xm.xla_device()).fit()
