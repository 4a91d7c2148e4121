"""Vessel segmentation on retinal crops: small U-Net, BCE + soft Dice, deep supervision."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(cout)

    def forward(self, x):
        return F.leaky_relu(self.bn(self.conv(x)), 0.1)


class UNet(nn.Module):
    def __init__(self, cin=3, classes=2, w=4):
        super().__init__()
        self.d1 = Block(cin, w)
        self.d2 = Block(w, 2 * w)
        self.mid = Block(2 * w, 4 * w)
        self.t2 = nn.ConvTranspose2d(4 * w, 2 * w, 2, stride=2)
        self.u2 = Block(4 * w, 2 * w)
        self.t1 = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.u1 = Block(2 * w, w)
        self.out = nn.Conv2d(w, classes, 1)
        self.aux = nn.Conv2d(2 * w, classes, 1)

    def forward(self, x):
        s1 = self.d1(x)
        s2 = self.d2(F.max_pool2d(s1, 2))
        h = self.mid(F.max_pool2d(s2, 2))
        h = self.u2(torch.cat([self.t2(h), s2], 1))
        aux = self.aux(h)
        h = self.u1(torch.cat([self.t1(h), s1], 1))
        return self.out(h), aux


class DiceBCE(nn.Module):
    """Artery and vein maps are not exclusive (crossings), hence sigmoid per channel."""

    def __init__(self, dice_weight=0.7, smooth=1.0, pos_weight=(2.0, 2.5)):
        super().__init__()
        self.dice_weight = dice_weight
        self.smooth = smooth
        self.register_buffer("pos_weight", torch.tensor(pos_weight).view(-1, 1, 1))

    def soft_dice(self, probs, target, fov):
        probs, target = probs * fov, target * fov
        dims = tuple(range(2, probs.dim()))
        inter = (probs * target).sum(dims)
        total = probs.square().sum(dims) + target.square().sum(dims)
        return (2 * inter + self.smooth) / (total + self.smooth)

    def forward(self, logits, target, fov):
        bce = F.binary_cross_entropy_with_logits(logits, target, pos_weight=self.pos_weight, reduction="none")
        bce = (bce * fov).sum() / (fov.sum() * logits.shape[1])
        dice = self.soft_dice(torch.sigmoid(logits), target, fov)
        return (1 - self.dice_weight) * bce + self.dice_weight * (1 - dice.mean())


def fake_crops(rng, n=4, size=16):
    yy, xx = np.mgrid[:size, :size]
    img = rng.normal(0.4, 0.1, (n, 3, size, size))
    lab = np.zeros((n, 2, size, size))
    for i in range(n):
        for c in range(2):
            a, b = rng.uniform(-1, 1), rng.uniform(2, size - 2)
            v = np.abs(yy - a * (xx - size / 2) - b) < rng.uniform(0.7, 1.6)
            lab[i, c] = v
            img[i, c] += 0.4 * v
    fov = ((yy - size / 2) ** 2 + (xx - size / 2) ** 2) < (0.48 * size) ** 2
    fov = np.broadcast_to(fov, (n, 1, size, size))
    return [torch.from_numpy(np.ascontiguousarray(a, dtype=np.float32)) for a in (img, lab, fov)]


def half(t):
    return F.max_pool2d(t, 2)


def main(steps=6):
    torch.manual_seed(17)
    rng = np.random.default_rng(4)
    device = torch_xla.device()
    model = UNet().to(device)
    criterion = DiceBCE().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=3e-5)

    losses = []
    model.train()
    for _ in range(steps):
        img, lab, fov = (t.to(device) for t in fake_crops(rng))
        out, aux = model(img)
        loss = criterion(out, lab, fov) + 0.4 * criterion(aux, half(lab), half(fov))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()
        losses.append(loss.detach())
    print(" ".join(f"{l.item():.5f}" for l in losses))


if __name__ == "__main__":
    main()
