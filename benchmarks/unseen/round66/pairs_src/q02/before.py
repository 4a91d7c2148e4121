"""Lesion segmentation on 2-channel MR slices."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.GroupNorm(4, cout), nn.LeakyReLU(0.01))


class TinyUNet(nn.Module):
    def __init__(self, cin=2, width=8):
        super().__init__()
        self.enc = ConvBlock(cin, width)
        self.mid = ConvBlock(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec = ConvBlock(2 * width, width)
        self.head = nn.Conv2d(width, 1, 1)
        self.aux = nn.Conv2d(2 * width, 1, 1)

    def forward(self, x):
        e = self.enc(x)
        m = self.mid(F.max_pool2d(e, 2))
        d = self.dec(torch.cat([e, self.up(m)], dim=1))
        return self.head(d), self.aux(m)


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.75, gamma=2.0):
        super().__init__()
        self.alpha = alpha
        self.gamma = gamma

    def forward(self, logits, target):
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        p = torch.sigmoid(logits)
        p_t = p * target + (1 - p) * (1 - target)
        alpha_t = self.alpha * target + (1 - self.alpha) * (1 - target)
        weight = alpha_t * (1 - p_t) ** self.gamma
        return (weight * ce).mean()


def dice_loss(logits, target, eps=1e-5):
    p = torch.sigmoid(logits).flatten(1)
    t = target.flatten(1)
    inter = (p * t).sum(1)
    return 1 - ((2 * inter + eps) / (p.sum(1) + t.sum(1) + eps)).mean()


def slices(n, rng, size=32, batch=4):
    yy, xx = np.mgrid[:size, :size]
    for _ in range(n):
        img = rng.standard_normal((batch, 2, size, size)).astype(np.float32)
        msk = np.zeros((batch, 1, size, size), np.float32)
        for b in range(batch):
            cy, cx, r = rng.integers(8, 24), rng.integers(8, 24), rng.integers(2, 6)
            msk[b, 0] = ((yy - cy) ** 2 + (xx - cx) ** 2) < r * r
        img[:, :1] += 2 * msk
        yield torch.from_numpy(img), torch.from_numpy(msk)


def main(steps=4):
    torch.manual_seed(0)
    dev = xm.xla_device()
    net = TinyUNet().to(dev)
    focal = FocalLoss()
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.99, nesterov=True, weight_decay=3e-5)
    for i, (img, msk) in enumerate(slices(steps, np.random.default_rng(1))):
        img, msk = img.to(dev), msk.to(dev)
        opt.zero_grad(set_to_none=True)
        out, aux = net(img)
        small = F.max_pool2d(msk, 2)
        loss = focal(out, msk) + dice_loss(out, msk) + 0.4 * focal(aux, small)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 12.0)
        opt.step()
        torch_xla.sync()
        print(i, f"{loss.item():.6f}")


if __name__ == "__main__":
    main()
