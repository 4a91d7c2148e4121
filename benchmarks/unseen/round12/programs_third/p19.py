"""Road-scene segmentation with a tiny U-Net; loss and IoU are tracked per step."""
import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassJaccardIndex

CLASSES, VOID, SIDE = 4, 255, 24


class Scenes(Dataset):
    """Bands of sky / building / road plus cars; borders are left unlabelled."""

    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 10007 + i)
        y = np.zeros((SIDE, SIDE), dtype=np.int64)
        h1, h2 = rng.integers(5, 10), rng.integers(12, 18)
        y[h1:h2], y[h2:] = 1, 2
        for _ in range(rng.integers(1, 4)):
            r, c = rng.integers(h2, SIDE - 3), rng.integers(0, SIDE - 5)
            y[r:r + 3, c:c + 5] = 3
        x = np.eye(CLASSES)[y][..., :3] + 0.3 * rng.normal(size=(SIDE, SIDE, 3))
        edge = np.zeros_like(y, dtype=bool)
        edge[:, 1:] |= y[:, 1:] != y[:, :-1]
        edge[1:] |= y[1:] != y[:-1]
        y[edge] = VOID
        return torch.from_numpy(x.astype("float32")).permute(2, 0, 1), torch.from_numpy(y)


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True))


class UNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.d1, self.d2, self.mid = block(3, w), block(w, 2 * w), block(2 * w, 2 * w)
        self.up2 = nn.ConvTranspose2d(2 * w, 2 * w, 2, 2)
        self.u2 = block(4 * w, w)
        self.up1 = nn.ConvTranspose2d(w, w, 2, 2)
        self.u1 = block(2 * w, w)
        self.head = nn.Conv2d(w, CLASSES, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(self.pool(a))
        m = self.mid(self.pool(b))
        x = self.u2(torch.cat([self.up2(m), b], 1))
        return self.head(self.u1(torch.cat([self.up1(x), a], 1)))


class SegmentationTask:
    def __init__(self, device, epochs, per_epoch):
        self.device = device
        self.net = UNet().to(device)
        self.criterion = nn.CrossEntropyLoss(ignore_index=VOID)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
        self.sched = torch.optim.lr_scheduler.PolynomialLR(self.opt, epochs * per_epoch + 1, power=0.9)
        self.loss = MeanMetric(nan_strategy="disable").to(device)
        self.iou = MulticlassJaccardIndex(CLASSES, ignore_index=VOID, validate_args=False).to(device)

    def training_step(self, image, mask):
        logits = self.net(image)
        loss = self.criterion(logits, mask)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.sched.step()
        self.loss.update(loss.detach())
        self.iou.update(logits.detach().argmax(1), mask)

    def end_epoch(self, epoch):
        print(f"epoch {epoch}: loss {self.loss.compute().item():.4f} mIoU {self.iou.compute().item():.4f}")
        self.loss.reset()
        self.iou.reset()


def main(epochs=2):
    torch.manual_seed(19)
    device = torch_xla.device()
    loader = DataLoader(Scenes(64, seed=19), batch_size=8, shuffle=True, drop_last=True)
    task = SegmentationTask(device, epochs, len(loader))
    xm.mark_step()
    for epoch in range(epochs):
        for image, mask in loader:
            task.training_step(image.to(device), mask.to(device))
            xm.mark_step()
        task.end_epoch(epoch)


if __name__ == "__main__":
    main()
