import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


class BlobSegmentation(Dataset):
    """Random disks on noisy background, 4 classes (0 is background)."""

    def __init__(self, n, size=16, classes=4, seed=0):
        self.rng = np.random.RandomState(seed)
        self.size, self.classes = size, classes
        self.items = [self._make() for _ in range(n)]

    def _make(self):
        s = self.size
        img = 0.3 * self.rng.randn(3, s, s).astype(np.float32)
        lab = np.zeros((s, s), dtype=np.int64)
        yy, xx = np.mgrid[:s, :s]
        for _ in range(3):
            c = self.rng.randint(1, self.classes)
            cy, cx = self.rng.randint(0, s, 2)
            r = self.rng.randint(2, 6)
            m = (yy - cy) ** 2 + (xx - cx) ** 2 <= r * r
            lab[m] = c
            img[c - 1][m] += 1.0
        return img, lab

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, lab = self.items[i]
        return torch.from_numpy(img), torch.from_numpy(lab)


class SmallUNet(nn.Module):
    def __init__(self, classes, w=8):
        super().__init__()
        self.e1 = nn.Conv2d(3, w, 3, padding=1)
        self.e2 = nn.Conv2d(w, 2 * w, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.out = nn.Conv2d(2 * w, classes, 1)

    def forward(self, x):
        a = F.relu(self.e1(x))
        b = F.relu(self.e2(a))
        return self.out(torch.cat([a, F.relu(self.up(b))], dim=1))


class HardPixelLoss(nn.Module):
    """Bootstrapped cross entropy, the kept share shrinks while training goes on."""

    def __init__(self, start=1.0, end=0.25, warm=5, total=40):
        super().__init__()
        self.start, self.end, self.warm, self.total = start, end, warm, total
        self.it = 0

    def keep_ratio(self):
        if self.it < self.warm:
            return self.start
        f = min(1.0, (self.it - self.warm) / (self.total - self.warm))
        return self.start + f * (self.end - self.start)

    def forward(self, logits, target):
        px = F.cross_entropy(logits, target, reduction="none").flatten(1)
        ratio = self.keep_ratio()
        self.it += 1
        if ratio >= 1.0:
            return px.mean()
        k = max(16, int(ratio * px.shape[1]))
        hard, _ = px.topk(k, dim=1)
        return hard.mean()


def train():
    torch.manual_seed(3)
    device = xm.xla_device()
    loader = DataLoader(BlobSegmentation(48), batch_size=8, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = SmallUNet(4).to(device)
    epochs = 4
    criterion = HardPixelLoss(total=epochs * len(loader))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-2, total_steps=epochs * len(loader) + 1)
    for epoch in range(epochs):
        model.train()
        total = torch.zeros((), device=device)
        hits = torch.zeros((), device=device)
        for img, lab in loader:
            opt.zero_grad()
            logits = model(img)
            loss = criterion(logits, lab)
            loss.backward()
            xm.optimizer_step(opt)
            sched.step()
            with torch.no_grad():
                total += loss
                hits += (logits.argmax(1) == lab).float().mean()
        n = len(loader)
        print(f"epoch {epoch} loss {total.item() / n:.4f} pixel-acc {hits.item() / n:.4f}")


if __name__ == "__main__":
    train()
