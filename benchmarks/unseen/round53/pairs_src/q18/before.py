"""Weather surrogate: 5.6 degree grid, small U-Net, bf16 weights, latitude-weighted loss."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CHANNELS = 6


class SphericalPad(nn.Module):
    """Wraps in longitude, replicates at the poles."""

    def forward(self, x):
        x = torch.cat([x[..., -1:], x, x[..., :1]], -1)
        return torch.cat([x[..., :1, :], x, x[..., -1:, :]], -2)


def norm(ch):
    return nn.GroupNorm(4, ch)


class ConvBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.pad = SphericalPad()
        self.conv1 = nn.Conv2d(cin, cout, 3, bias=False)
        self.norm1 = norm(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, bias=False)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        h = F.gelu(self.norm1(self.conv1(self.pad(x))))
        h = self.conv2(self.pad(h))
        return F.gelu(h + self.skip(x))


class UNet(nn.Module):
    def __init__(self, cin=2 * CHANNELS, cout=CHANNELS, width=16):
        super().__init__()
        self.enc1 = ConvBlock(cin, width)
        self.enc2 = ConvBlock(width, 2 * width)
        self.dec1 = ConvBlock(3 * width, width)
        self.head = nn.Conv2d(width, cout, 1)

    def forward(self, x):
        s = self.enc1(x)
        h = self.enc2(F.avg_pool2d(s, 2))
        h = h.repeat_interleave(2, -1).repeat_interleave(2, -2)
        return self.head(self.dec1(torch.cat([h, s], 1)))


class WeightedMSE(nn.Module):
    def __init__(self, nlat):
        super().__init__()
        lat = (torch.arange(nlat) + 0.5) / nlat * math.pi - math.pi / 2
        w = torch.cos(lat)
        self.register_buffer("w", (w / w.mean())[:, None])

    def forward(self, pred, target):
        return ((pred.float() - target) ** 2 * self.w).mean()


def train_step(model, opt, criterion, prev, now, nxt):
    opt.zero_grad()
    x = torch.cat([prev, now], 1).to(torch.bfloat16)
    tendency = model(x)
    loss = criterion(now + tendency.float(), nxt)
    loss.backward()
    opt.step()
    return loss


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = UNet().to(device=device, dtype=torch.bfloat16)
    criterion = WeightedMSE(16).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    gen = torch.Generator().manual_seed(1)
    torch_xla.sync()
    for step in range(4):
        prev, now, nxt = (torch.randn(2, CHANNELS, 16, 32, generator=gen).to(device) for _ in range(3))
        loss = train_step(model, opt, criterion, prev, now, nxt)
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
