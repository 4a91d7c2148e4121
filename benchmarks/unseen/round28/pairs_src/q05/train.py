import logging

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset
from torch_xla.distributed.parallel_loader import MpDeviceLoader

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("glyphs")


class Glyphs(Dataset):
    """Random strokes on a 12x12 canvas; the class is the number of strokes."""

    def __init__(self, n=92, classes=5, seed=0):
        rng = np.random.RandomState(seed)
        self.x = np.zeros((n, 1, 12, 12), np.float32)
        self.y = rng.randint(0, classes, n)
        for img, k in zip(self.x, self.y):
            for _ in range(k + 1):
                r, c = rng.randint(0, 12, 2)
                if rng.rand() < 0.5:
                    img[0, r, max(0, c - 3):c + 3] += 1.0
                else:
                    img[0, max(0, r - 3):r + 3, c] += 1.0

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), int(self.y[i])


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.norm = nn.GroupNorm(2, cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x))) + self.skip(x)


class GlyphNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.body = nn.Sequential(ConvBlock(1, 8, 1), ConvBlock(8, 12, 2), ConvBlock(12, 16, 2))
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))


def gram_penalty(model):
    total = 0.0
    for m in model.modules():
        if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3):
            w = m.weight.flatten(1)
            eye = torch.eye(w.size(0), device=w.device)
            total = total + (w @ w.t() - eye).pow(2).sum()
    return total


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.model = GlyphNet().to(self.device)
        self.opt = torch.optim.RMSprop(self.model.parameters(), lr=cfg["lr"], alpha=0.95)
        self.global_step = 0

    def loss(self, x, y):
        loss = F.cross_entropy(self.model(x), y, label_smoothing=self.cfg["smoothing"])
        if (self.global_step + 1) % self.cfg["ortho_every"] == 0:
            loss = loss + self.cfg["ortho"] * gram_penalty(self.model)
        return loss

    def fit(self, loader):
        for epoch in range(self.cfg["epochs"]):
            running = []
            for x, y in MpDeviceLoader(loader, self.device):
                self.opt.zero_grad()
                loss = self.loss(x, y)
                loss.backward()
                self.opt.step()
                running.append(loss.detach())
                self.global_step += 1
                running = [torch.stack(running).sum()]
            log.info("epoch %d  mean loss %.4f", epoch, running[0].item() / len(loader))


if __name__ == "__main__":
    torch.manual_seed(7)
    cfg = {"lr": 1e-3, "smoothing": 0.1, "ortho": 1e-3, "ortho_every": 3, "epochs": 1}
    loader = DataLoader(Glyphs(), batch_size=16, shuffle=True)
    Trainer(cfg).fit(loader)
