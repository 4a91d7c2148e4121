"""CIFAR-style training of a small residual network on XLA."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class BasicBlock(nn.Module):

    def __init__(self, c_in, c_out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.down = None
        if stride != 1 or c_in != c_out:
            self.down = nn.Conv2d(c_in, c_out, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.down is None else self.down(x)))


class ResNet(nn.Module):

    def __init__(self, width=8, num_classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.layers = nn.Sequential(
            BasicBlock(width, width),
            BasicBlock(width, 2 * width, 2),
            BasicBlock(2 * width, 4 * width, 2),
        )
        self.fc = nn.Linear(4 * width, num_classes)

    def forward(self, x):
        x = F.relu(self.bn(self.stem(x)))
        x = self.layers(x).mean(dim=(2, 3))
        return self.fc(x)


def rand_bbox(h, w, lam, rng):
    ratio = np.sqrt(1.0 - lam)
    cut_h, cut_w = int(h * ratio), int(w * ratio)
    cy, cx = rng.integers(0, h), rng.integers(0, w)
    yl, yh = np.clip(cy - cut_h // 2, 0, h), np.clip(cy + cut_h // 2, 0, h)
    xl, xh = np.clip(cx - cut_w // 2, 0, w), np.clip(cx + cut_w // 2, 0, w)
    return int(yl), int(yh), int(xl), int(xh)


class CutMix:

    def __init__(self, alpha=1.0, num_classes=10, smoothing=0.1, seed=0):
        self.alpha = alpha
        self.num_classes = num_classes
        self.smoothing = smoothing
        self.rng = np.random.default_rng(seed)

    def _one_hot(self, y):
        off = self.smoothing / self.num_classes
        on = 1.0 - self.smoothing + off
        return F.one_hot(y, self.num_classes).float() * (on - off) + off

    def __call__(self, x, y):
        h, w = x.shape[-2:]
        lam = self.rng.beta(self.alpha, self.alpha)
        yl, yh, xl, xh = rand_bbox(h, w, lam, self.rng)
        flipped = x.flip(0)
        x[:, :, yl:yh, xl:xh] = flipped[:, :, yl:yh, xl:xh]
        lam = 1.0 - (yh - yl) * (xh - xl) / float(h * w)
        t = self._one_hot(y)
        return x, t * lam + t.flip(0) * (1.0 - lam)


def soft_cross_entropy(logits, target):
    return torch.sum(-target * F.log_softmax(logits, dim=-1), dim=-1).mean()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = ResNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9,
                          weight_decay=5e-4, nesterov=True)
    cutmix = CutMix(seed=3)
    seen = torch.zeros((), dtype=torch.int64, device=device)
    torch_xla.sync()
    model.train()
    for step in range(4):
        x = torch.randn(16, 3, 32, 32).to(device)
        y = torch.randint(0, 10, (16,)).to(device)
        x, t = cutmix(x, y)
        opt.zero_grad()
        loss = soft_cross_entropy(model(x), t)
        loss.backward()
        opt.step()
        seen += y.shape[0]
        torch_xla.sync()
        print(step, loss.item(), seen.item())


if __name__ == '__main__':
    main()
