"""Monocular depth: small disparity U-Net, sparse lidar supervision plus edge-aware smoothness."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn = nn.BatchNorm2d(cout)

    def forward(self, x):
        return F.elu(self.bn(self.conv(x)))


class DispNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc1 = ConvBlock(3, 8, 2)
        self.enc2 = ConvBlock(8, 12, 2)
        self.up1 = nn.Conv2d(12 + 8, 8, 3, padding=1)
        self.disp1 = nn.Conv2d(8, 1, 3, padding=1)
        self.up0 = nn.Conv2d(8 + 3, 6, 3, padding=1)
        self.disp0 = nn.Conv2d(6, 1, 3, padding=1)

    def forward(self, img):
        e1 = self.enc1(img)
        e2 = self.enc2(e1)
        h = F.interpolate(e2, scale_factor=2, mode="nearest")
        h = F.elu(self.up1(torch.cat([h, e1], 1)))
        d1 = torch.sigmoid(self.disp1(h))
        h = F.interpolate(h, scale_factor=2, mode="nearest")
        h = F.elu(self.up0(torch.cat([h, img], 1)))
        d0 = torch.sigmoid(self.disp0(h))
        return [d0, d1]


def disp_to_depth(disp, min_depth=0.1, max_depth=80.0):
    lo, hi = 1.0 / max_depth, 1.0 / min_depth
    return 1.0 / (lo + (hi - lo) * disp)


def silog(depth, gt, lam=0.85):
    valid = (gt > 0.5).to(depth.dtype)
    n = valid.sum().clamp(min=1.0)
    diff = (torch.log(depth) - torch.log(gt.clamp(min=0.5))) * valid
    sq = (diff ** 2).sum() / n
    mu = diff.sum() / n
    return torch.sqrt(sq - lam * mu * mu + 1e-6)


def smoothness(disp, img):
    mean_disp = disp.mean((2, 3), keepdim=True).detach()
    disp = disp / (mean_disp + 1e-7)
    dx = (disp[:, :, :, :-1] - disp[:, :, :, 1:]).abs()
    dy = (disp[:, :, :-1, :] - disp[:, :, 1:, :]).abs()
    wx = torch.exp(-(img[:, :, :, :-1] - img[:, :, :, 1:]).abs().mean(1, keepdim=True))
    wy = torch.exp(-(img[:, :, :-1, :] - img[:, :, 1:, :]).abs().mean(1, keepdim=True))
    return (dx * wx).mean() + (dy * wy).mean()


def total_loss(disps, img, gt):
    loss = 0.0
    for s, disp in enumerate(disps):
        image = img if s == 0 else F.avg_pool2d(img, 2 ** s)
        target = gt if s == 0 else F.max_pool2d(gt, 2 ** s)
        loss = loss + silog(disp_to_depth(disp), target)
        loss = loss + 1e-3 / (2 ** s) * smoothness(disp, image)
    return loss / len(disps)


def main(out):
    torch.manual_seed(3)
    dev = torch_xla.device()
    net = DispNet().to(dev).train()
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-4, alpha=0.95)
    g = torch.Generator().manual_seed(5)
    for step in range(3):
        img = torch.rand(2, 3, 16, 24, generator=g).to(dev)
        gt = (torch.rand(2, 1, 16, 24, generator=g) * 40).to(dev)
        disps = net(img)
        loss = total_loss(disps, img, gt)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        del disps
        if step == 2:
            live = [loss] + list(net.parameters()) + list(net.buffers())
            for p in net.parameters():
                live.append(opt.state[p]["square_avg"])
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


main(sys.argv[1])
