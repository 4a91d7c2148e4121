"""Small U-Net for multi-organ segmentation of 2-D slices, Dice + cross entropy."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

ORGANS = ["background", "liver", "spleen", "kidney_l", "kidney_r", "pancreas", "aorta"]


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.GroupNorm(2, cout), nn.SiLU(),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.GroupNorm(2, cout), nn.SiLU())


class UNet(nn.Module):
    def __init__(self, classes, width=8):
        super().__init__()
        self.enc1 = block(1, width)
        self.enc2 = block(width, 2 * width)
        self.mid = block(2 * width, 2 * width)
        self.up2 = nn.ConvTranspose2d(2 * width, 2 * width, 2, stride=2)
        self.dec2 = block(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec1 = block(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        y = self.dec2(torch.cat([self.up2(c), b], 1))
        y = self.dec1(torch.cat([self.up1(y), a], 1))
        return self.head(y)


class DiceCELoss(nn.Module):
    def __init__(self, classes, smooth=1e-5, ce_weight=0.5):
        super().__init__()
        self.classes = classes
        self.smooth = smooth
        self.ce_weight = ce_weight

    def forward(self, logits, target):
        probs = logits.softmax(1)
        onehot = F.one_hot(target, self.classes).permute(0, 3, 1, 2).to(probs.dtype)
        counts = onehot.sum((0, 2, 3))
        terms = []
        for c in range(1, self.classes):
            if counts[c] == 0:
                continue
            inter = (probs[:, c] * onehot[:, c]).sum()
            denom = probs[:, c].sum() + counts[c]
            terms.append(1.0 - (2.0 * inter + self.smooth) / (denom + self.smooth))
        dice = torch.stack(terms).mean()
        return dice + self.ce_weight * F.cross_entropy(logits, target)


class SliceSampler:
    """Axial slices at a random height; an organ shows only inside its own range of heights."""

    extents = {1: (0.2, 0.7), 2: (0.3, 0.6), 3: (0.1, 0.5), 4: (0.15, 0.45), 5: (0.35, 0.65), 6: (0.0, 0.9)}

    def __init__(self, size, batch, seed):
        self.size, self.batch = size, batch
        self.rng = np.random.default_rng(seed)

    def one(self):
        s = self.size
        label = np.zeros((s, s), dtype=np.int64)
        height = self.rng.uniform()
        yy, xx = np.mgrid[:s, :s]
        for organ, (lo, hi) in self.extents.items():
            if not lo < height < hi or self.rng.uniform() < 0.3:
                continue
            cy, cx = s * (0.25 + 0.5 * (organ % 3) / 2), s * (0.25 + 0.5 * (organ // 4))
            cy, cx = cy + self.rng.normal(), cx + self.rng.normal()
            ry, rx = self.rng.uniform(2.0, s / 6, 2)
            label[((yy - cy) / ry) ** 2 + ((xx - cx) / rx) ** 2 < 1.0] = organ
        if not label.any():
            label[s // 2 - 1:s // 2 + 1, s // 2 - 1:s // 2 + 1] = 6
        image = 0.3 * label + 0.25 * self.rng.standard_normal((s, s))
        return image.astype(np.float32), label

    def __next__(self):
        images, labels = zip(*(self.one() for _ in range(self.batch)))
        return torch.from_numpy(np.stack(images))[:, None], torch.from_numpy(np.stack(labels))


def train(steps=36, batch=2, size=24):
    torch.manual_seed(0)
    device = xm.xla_device()
    net = UNet(len(ORGANS)).to(device)
    criterion = DiceCELoss(len(ORGANS))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.PolynomialLR(opt, total_iters=steps, power=0.9)
    data = SliceSampler(size, batch, seed=9)
    history = []
    for step in range(steps):
        image, label = next(data)
        image, label = image.to(device), label.to(device)
        opt.zero_grad()
        loss = criterion(net(image), label)
        loss.backward()
        opt.step()
        sched.step()
        xm.mark_step()
        history.append(loss.detach())
    values = torch.stack(history).cpu()
    print(f"first ten {values[:10].mean().item():.4f}, last ten {values[-10:].mean().item():.4f}")


if __name__ == "__main__":
    train()
