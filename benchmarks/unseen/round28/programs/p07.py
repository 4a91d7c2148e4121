"""Lane segmentation, small U-Net, bootstrapped cross entropy (keeps the hardest pixels)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

config = {
    "size": 16,
    "batch_size": 4,
    "epochs": 2,
    "samples": 40,
    "optim": {"lr": 0.02, "momentum": 0.9, "weight_decay": 1e-4},
    "loss": {"start_warm": 2, "end_warm": 13, "top_p": 0.2},
}


class Lanes(Dataset):
    def __init__(self, n, size):
        g = torch.Generator().manual_seed(2)
        self.img, self.mask = [], []
        cols = torch.arange(size).float()[None, :]
        rows = torch.arange(size).float()[:, None]
        for _ in range(n):
            a = torch.rand(2, generator=g)
            center = a[0] * size + (a[1] - 0.5) * rows
            mask = ((cols - center).abs() < 1.5).long()
            noise = 0.4 * torch.randn(3, size, size, generator=g)
            self.img.append(mask.float()[None] + noise)
            self.mask.append(mask)

    def __len__(self):
        return len(self.img)

    def __getitem__(self, i):
        return self.img[i], self.mask[i]


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.ReLU())


class TinyUNet(nn.Module):
    def __init__(self, ch=4, classes=2):
        super().__init__()
        self.d1, self.d2 = block(3, ch), block(ch, 2 * ch)
        self.up = nn.ConvTranspose2d(2 * ch, ch, 2, stride=2)
        self.u1 = block(2 * ch, ch)
        self.head = nn.Conv2d(ch, classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.avg_pool2d(a, 2))
        return self.head(self.u1(torch.cat([a, self.up(b)], dim=1)))


class BootstrappedCE(nn.Module):
    """Cross entropy over the hardest fraction of pixels, annealed from 100% to top_p."""

    def __init__(self, start_warm, end_warm, top_p):
        super().__init__()
        self.start_warm = start_warm
        self.end_warm = end_warm
        self.top_p = top_p

    def forward(self, logits, target, it):
        raw = F.cross_entropy(logits, target, reduction="none").view(-1)
        if it < self.start_warm:
            return raw.mean(), 1.0
        if it > self.end_warm:
            this_p = self.top_p
        else:
            ramp = (self.end_warm - it) / (self.end_warm - self.start_warm)
            this_p = self.top_p + (1 - self.top_p) * ramp
        hardest, _ = torch.topk(raw, int(raw.numel() * this_p), sorted=False)
        return hardest.mean(), this_p


class Engine:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = xm.xla_device()
        data = Lanes(cfg["samples"], cfg["size"])
        loader = DataLoader(data, cfg["batch_size"], shuffle=True, drop_last=True)
        self.loader = pl.MpDeviceLoader(loader, self.device)
        self.model = TinyUNet().to(self.device)
        self.criterion = BootstrappedCE(**cfg["loss"])
        self.optim = torch.optim.SGD(self.model.parameters(), **cfg["optim"])
        total = cfg["epochs"] * len(loader)
        self.sched = torch.optim.lr_scheduler.PolynomialLR(self.optim, total, power=0.9)
        self.it = 0

    def fit(self):
        for epoch in range(self.cfg["epochs"]):
            inter = torch.zeros((), device=self.device)
            union = torch.zeros((), device=self.device)
            for img, mask in self.loader:
                logits = self.model(img)
                loss, p = self.criterion(logits, mask, self.it)
                self.optim.zero_grad()
                loss.backward()
                xm.optimizer_step(self.optim)
                self.sched.step()
                pred = logits.detach().argmax(1)
                inter += (pred & mask).sum()
                union += (pred | mask).sum()
                self.it += 1
            iou = (inter / union.clamp(min=1)).item()
            print(f"epoch {epoch}: iou={iou:.3f} kept={p:.2f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    Engine(config).fit()
