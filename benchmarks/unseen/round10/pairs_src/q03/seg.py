import random
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla


def conv_bn(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class TinyUNet(nn.Module):
    def __init__(self, cin=3, classes=4, w=8):
        super().__init__()
        self.d1 = conv_bn(cin, w)
        self.d2 = conv_bn(w, 2 * w)
        self.mid = conv_bn(2 * w, 2 * w)
        self.u1 = conv_bn(4 * w, w)
        self.up = nn.ConvTranspose2d(w, w, 2, stride=2)
        self.out = nn.Conv2d(2 * w, classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.mid(b)
        c = self.u1(torch.cat([b, c], 1))
        c = self.up(c)
        return self.out(torch.cat([a, c], 1))


class RandomCrop:
    """crop on the accelerator, cheaper than in the input workers"""

    def __init__(self, size, rng):
        self.size, self.rng = size, rng

    def __call__(self, img, mask):
        _, _, h, w = img.shape
        top = self.rng.randint(1, h - self.size - 1)
        left = self.rng.randint(1, w - self.size - 1)
        img = img[:, :, top:top + self.size, left:left + self.size]
        mask = mask[:, top:top + self.size, left:left + self.size]
        return img, mask


def dice(logits, target, classes):
    p = logits.softmax(1)
    ids = torch.arange(classes, device=target.device).view(1, -1, 1, 1)
    t = (target.unsqueeze(1) == ids).float()
    inter = (p * t).sum((0, 2, 3))
    return 1 - (2 * inter / (p.sum((0, 2, 3)) + t.sum((0, 2, 3)) + 1e-5)).mean()


def synthetic(n, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield (torch.randn(4, 3, 24, 24, generator=g),
               torch.randint(0, 4, (4, 24, 24), generator=g))


def run(steps=10):
    torch.manual_seed(0)
    dev = torch_xla.device()
    net = TinyUNet().to(dev).train()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    crop = RandomCrop(16, random.Random(11))
    running = []
    for i, (img, mask) in enumerate(synthetic(steps, 5)):
        img, mask = crop(img.to(dev), mask.to(dev))
        logits = net(img)
        loss = F.cross_entropy(logits, mask) + dice(logits, mask, 4)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()
        running.append(loss.detach())
        if i % 3 == 2:
            print(i, 'loss', torch.stack(running).mean().item())
            running = []


if __name__ == '__main__':
    run()
