"""Monocular depth with sparse LiDAR supervision."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ConvBlock(nn.Module):
    def __init__(self, c_in, c_out, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.norm = nn.GroupNorm(4, c_out)

    def forward(self, x):
        return F.elu(self.norm(self.conv(x)))


class DepthNet(nn.Module):
    def __init__(self, width=8, d_min=0.5, d_max=60.0):
        super().__init__()
        self.enc1 = ConvBlock(3, width)
        self.enc2 = ConvBlock(width, 2 * width, stride=2)
        self.mid = ConvBlock(2 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.dec1 = ConvBlock(2 * width, width)
        self.head = nn.Conv2d(width, 1, 1)
        self.inv_min, self.inv_max = 1 / d_max, 1 / d_min

    def forward(self, image):
        e1 = self.enc1(image)
        h = self.mid(self.enc2(e1))
        d1 = self.dec1(torch.cat([self.up1(h), e1], dim=1))
        disp = torch.sigmoid(self.head(d1))
        return 1.0 / (self.inv_min + (self.inv_max - self.inv_min) * disp)


def masked_mean(x, mask):
    """Mean of x over the pixels where mask is set."""
    dims = tuple(range(1, x.dim()))
    return (x * mask).sum(dims) / mask.sum(dims).clamp(min=1.0)


class DepthLoss(nn.Module):
    def __init__(self, variance_focus=0.85, grad_weight=0.1):
        super().__init__()
        self.variance_focus = variance_focus
        self.grad_weight = grad_weight

    def silog(self, err, valid):
        mean_sq = masked_mean(err * err, valid)
        mean = masked_mean(err, valid)
        return torch.sqrt(mean_sq - self.variance_focus * mean * mean + 1e-6).mean()

    def gradient(self, err, valid):
        vx = valid[..., :, 1:] * valid[..., :, :-1]
        vy = valid[..., 1:, :] * valid[..., :-1, :]
        gx = (err[..., :, 1:] - err[..., :, :-1]).abs()
        gy = (err[..., 1:, :] - err[..., :-1, :]).abs()
        n = (vx.sum() + vy.sum()).clamp(min=1.0)
        return ((gx * vx).sum() + (gy * vy).sum()) / n

    def forward(self, pred, target):
        valid = ((target > 0.5) & (target < 60.0)).to(pred.dtype)
        err = torch.log(pred) - torch.log(target.clamp(min=1e-3))
        return 10.0 * self.silog(err, valid) + self.grad_weight * self.gradient(err, valid)


def scenes(n, batch, size, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        img = rng.uniform(-1, 1, (batch, 3, size, size)).astype(np.float32)
        ramp = np.linspace(45, 3, size)[None, None, :, None]
        depth = ramp * rng.uniform(0.7, 1.3, (batch, 1, size, size))
        hit = rng.uniform(size=depth.shape) < rng.uniform(0.1, 0.6, (batch, 1, 1, 1))
        yield torch.from_numpy(img), torch.from_numpy((depth * hit).astype(np.float32))


def main(steps=5):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = DepthNet().to(device)
    criterion = DepthLoss()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-3, total_steps=50)
    torch_xla.sync()
    for step, (img, depth) in enumerate(scenes(steps, 2, 32)):
        img, depth = img.to(device), depth.to(device)
        opt.zero_grad()
        loss = criterion(model(img), depth)
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
