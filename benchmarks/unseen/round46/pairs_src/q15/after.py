"""Crop-type segmentation of Sentinel-2 tiles with a two-level U-Net; Dice plus focal loss,
pixels below clouds are ignored.  Adam."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
BANDS, CROPS, BASE, SIZE, BATCH = 5, 4, 4, 8, 3
GAMMA, EPS = 2.0, 1.0


class ConvGN(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(2, cout)

    def forward(self, x):
        return F.leaky_relu(self.norm(self.conv(x)), 0.1)


class SmallUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = ConvGN(BANDS, BASE)
        self.mid = ConvGN(BASE, 2 * BASE)
        self.up = nn.ConvTranspose2d(2 * BASE, BASE, 2, stride=2)
        self.dec = ConvGN(2 * BASE, BASE)
        self.out = nn.Conv2d(BASE, CROPS, 1)

    def forward(self, x):
        skip = self.enc(x)
        y = self.mid(F.avg_pool2d(skip, 2))
        y = self.up(y)
        y = self.dec(torch.cat([skip, y], dim=1))
        return self.out(y)


def dice_loss(prob, onehot, clear):
    inter = (prob * onehot * clear).sum(dim=(0, 2, 3))
    denom = ((prob + onehot) * clear).sum(dim=(0, 2, 3))
    return 1.0 - ((2.0 * inter + EPS) / (denom + EPS)).mean()


def focal_loss(logp, onehot, clear):
    logpt = (logp * onehot).sum(1, keepdim=True)
    loss = -((1.0 - logpt.exp()) ** GAMMA) * logpt * clear
    return loss.sum() / clear.sum().clamp(min=1.0)


def loss_fn(logits, crop, clear):
    onehot = F.one_hot(crop, CROPS).permute(0, 3, 1, 2).to(logits.dtype)
    logp = F.log_softmax(logits, dim=1)
    return dice_loss(logp.exp(), onehot, clear) + focal_loss(logp, onehot, clear)


def pending(net, opt, extra):
    out = list(extra)
    for p in net.parameters():
        out += [p.data, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out


def main(target):
    torch.manual_seed(21)
    dev = torch_xla.device()
    net = SmallUNet().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=0.05)
    gen = torch.Generator().manual_seed(9)
    torch_xla.sync()
    for step in range(3):
        tile = torch.randn(BATCH, BANDS, SIZE, SIZE, generator=gen).to(dev)
        crop = torch.randint(0, CROPS, (BATCH, SIZE, SIZE), generator=gen).to(dev)
        clear = (torch.rand(BATCH, 1, SIZE, SIZE, generator=gen) > 0.2).float().to(dev)
        opt.zero_grad()
        loss = loss_fn(net(tile), crop, clear)
        loss.backward()
        opt.step()
        if step == 2:
            with open(os.path.join(HERE, target), "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(pending(net, opt, [loss])))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main("b.hlo")
