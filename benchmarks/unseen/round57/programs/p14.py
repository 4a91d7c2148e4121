"""Binary segmentation of synthetic cells: tiny U-Net, bootstrapped cross-entropy, dice, scale jitter."""
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    size: int = 32
    batch: int = 6
    steps: int = 18
    lr: float = 3e-3
    bootstrap_start: int = 3
    bootstrap_end: int = 16
    bootstrap_top_p: float = 0.2
    jitter: tuple = (0.75, 1.5)
    dice_weight: float = 0.5
    eval_every: int = 9


def draw_cells(n, size, gen):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    masks = torch.zeros(n, size, size)
    for i in range(n):
        for _ in range(int(torch.randint(1, 5, (1,), generator=gen))):
            cy, cx = (torch.rand(2, generator=gen) * size).tolist()
            r = 2.5 + 4 * torch.rand(1, generator=gen).item()
            masks[i] = torch.maximum(masks[i], (((yy - cy) ** 2 + (xx - cx) ** 2) < r * r).float())
    image = 0.8 * masks + 0.3 * torch.randn(n, size, size, generator=gen)
    return image.unsqueeze(1), masks.unsqueeze(1)


class ConvBNAct(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.enc1, self.enc2 = ConvBNAct(1, w), ConvBNAct(w, 2 * w)
        self.up = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.dec = ConvBNAct(2 * w, w)
        self.head = nn.Conv2d(w, 2, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        return self.head(self.dec(torch.cat([a, self.up(b)], 1)))


class ScaleJitter:
    """Rescales a batch and brings it back to the training size by a centre crop or by padding."""

    def __init__(self, size, lo, hi, rng):
        self.size, self.lo, self.hi, self.rng = size, lo, hi, rng

    def _fit(self, t):
        h = t.shape[-1]
        if h >= self.size:
            o = (h - self.size) // 2
            return t[..., o:o + self.size, o:o + self.size]
        before = (self.size - h) // 2
        after = self.size - h - before
        return F.pad(t, (before, after, before, after))

    def __call__(self, image, mask):
        side = int(round(self.size * self.rng.uniform(self.lo, self.hi)))
        image = F.interpolate(image, size=(side, side), mode="bilinear", align_corners=False)
        mask = F.interpolate(mask, size=(side, side), mode="nearest")
        return self._fit(image), self._fit(mask)


class BootstrappedCE(nn.Module):
    def __init__(self, start, end, top_p):
        super().__init__()
        self.start, self.end, self.top_p = start, end, top_p

    def forward(self, logits, target, it):
        raw = F.cross_entropy(logits, target, reduction="none").flatten()
        if it < self.start:
            return raw.mean(), 1.0
        if it > self.end:
            p = self.top_p
        else:
            p = self.top_p + (1 - self.top_p) * (self.end - it) / (self.end - self.start)
        hardest, _ = torch.topk(raw, int(raw.numel() * p), sorted=False)
        return hardest.mean(), p


def dice_loss(logits, target, eps=1.0):
    p = logits.softmax(1)[:, 1]
    inter = (p * target).sum((1, 2))
    return (1 - (2 * inter + eps) / (p.sum((1, 2)) + target.sum((1, 2)) + eps)).mean()


@torch.no_grad()
def evaluate(model, image, mask):
    model.eval()
    pred = model(image).argmax(1).float()
    model.train()
    inter = (pred * mask[:, 0]).sum()
    union = torch.maximum(pred, mask[:, 0]).sum()
    return (inter / union.clamp(min=1)).item()


def train(cfg):
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(22)
    device = torch_xla.device()
    model = UNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr * 10, momentum=0.9, nesterov=True)
    warm = torch.optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, total_iters=10)
    jitter = ScaleJitter(cfg.size, *cfg.jitter, random.Random(23))
    criterion = BootstrappedCE(cfg.bootstrap_start, cfg.bootstrap_end, cfg.bootstrap_top_p)
    val_image, val_mask = (t.to(device) for t in draw_cells(12, cfg.size, gen))

    for it in range(cfg.steps):
        image, mask = (t.to(device) for t in draw_cells(cfg.batch, cfg.size, gen))
        image, mask = jitter(image, mask)
        target = mask[:, 0]
        logits = model(image)
        ce, p = criterion(logits, target.long(), it)
        dice_w = cfg.dice_weight * min(1.0, it / 20 + 0.01)
        loss = ce + dice_w * dice_loss(logits, target)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        warm.step()
        xm.mark_step()
        if (it + 1) % cfg.eval_every == 0:
            iou = evaluate(model, val_image, val_mask)
            xm.master_print(f"it {it + 1} loss {loss.item():.3f} p {p:.2f} IoU {iou:.3f}")


if __name__ == "__main__":
    train(Config())
