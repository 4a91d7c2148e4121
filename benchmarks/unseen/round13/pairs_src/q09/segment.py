"""Binary/multi-class segmentation with a small U-Net and online hard pixel mining."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def conv_bn(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, classes=3, c=6):
        super().__init__()
        self.d1 = conv_bn(3, c)
        self.d2 = conv_bn(c, 2 * c)
        self.mid = conv_bn(2 * c, 2 * c)
        self.up = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.u1 = conv_bn(2 * c, c)
        self.out = nn.Conv2d(c, classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.avg_pool2d(a, 2))
        b = self.mid(b)
        u = self.up(b)
        return self.out(self.u1(torch.cat([u, a], dim=1)))


class OhemCrossEntropy(nn.Module):
    def __init__(self, start_ratio=1.0, final_ratio=0.25, ramp=10):
        super().__init__()
        self.start, self.final, self.ramp = start_ratio, final_ratio, ramp

    def ratio(self, it):
        t = min(1.0, it / self.ramp)
        return self.start + t * (self.final - self.start)

    def forward(self, logits, target, it):
        pixel = F.cross_entropy(logits, target, reduction="none").flatten()
        k = int(pixel.numel() * self.ratio(it))
        hard, _ = torch.topk(pixel, k)
        return hard.mean()


def poly_lr(opt, it, total, base=0.1, power=0.9):
    lr = base * (1 - it / total) ** power
    for g in opt.param_groups:
        g["lr"] = lr
    return lr


def shapes_batch(n=4, size=12):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    masks = []
    for _ in range(n):
        cy, cx = torch.randint(2, size - 2, (2,)).tolist()
        disc = ((yy - cy) ** 2 + (xx - cx) ** 2 < 9).long()
        box = ((yy - cx).abs() + (xx - cy).abs() < 3).long() * 2
        masks.append(torch.maximum(disc, box))
    mask = torch.stack(masks)
    img = F.one_hot(mask, 3).permute(0, 3, 1, 2).float() + 0.3 * torch.randn(n, 3, size, size)
    return img, mask


def main():
    torch.manual_seed(9)
    device = torch_xla.device()
    net = UNet().to(device)
    criterion = OhemCrossEntropy()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    total = 20
    for it in range(total):
        img, mask = (t.to(device) for t in shapes_batch())
        lr = poly_lr(opt, it, total)
        logits = net(img)
        loss = criterion(logits, mask, it)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if it % 5 == 0:
            miou = (logits.argmax(1) == mask).float().mean()
            print(f"iter {it:02d} lr {lr:.4f} loss {loss.item():.4f} pixel acc {miou.item():.3f}")


if __name__ == "__main__":
    main()
