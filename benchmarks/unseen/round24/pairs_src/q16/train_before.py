import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SETTINGS = {
    "n_classes": 3,
    "base": 6,
    "crop": 16,
    "batch_size": 4,
    "lr": 0.05,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "dice_weight": 0.7,
    "iters": 4,
}


def conv_bn(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.LeakyReLU(0.1),
    )


class MiniUNet(nn.Module):
    def __init__(self, base, n_classes):
        super().__init__()
        self.stem = conv_bn(1, base)
        self.down = conv_bn(base, 2 * base, stride=2)
        self.mid = conv_bn(2 * base, 2 * base)
        self.up = nn.ConvTranspose2d(2 * base, base, 2, stride=2)
        self.fuse = conv_bn(2 * base, base)
        self.classify = nn.Conv2d(base, n_classes, 1)

    def forward(self, x):
        s = self.stem(x)
        d = self.mid(self.down(s))
        u = torch.cat([self.up(d), s], dim=1)
        return self.classify(self.fuse(u))


class DiceCE(nn.Module):
    def __init__(self, n_classes, dice_weight, smooth=1.0):
        super().__init__()
        self.n_classes = n_classes
        self.dice_weight = dice_weight
        self.smooth = smooth

    def dice(self, logits, target):
        prob = logits.softmax(1)
        hot = F.one_hot(target, self.n_classes).permute(0, 3, 1, 2).to(prob.dtype)
        inter = (prob * hot).sum(dim=(2, 3))
        total = prob.sum(dim=(2, 3)) + hot.sum(dim=(2, 3))
        score = (2 * inter + self.smooth) / (total + self.smooth)
        return 1 - score.mean()

    def forward(self, logits, target):
        ce = F.cross_entropy(logits, target)
        return ce + self.dice_weight * self.dice(logits, target)


def phantom(n, size, gen):
    """Two discs of different intensity on noise."""
    grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij"), -1).float()
    label = torch.zeros(n, size, size, dtype=torch.long)
    for k in (1, 2):
        c = torch.rand(n, 1, 1, 2, generator=gen) * size
        r = 2 + 3 * torch.rand(n, 1, 1, generator=gen)
        label[((grid - c) ** 2).sum(-1) < r * r] = k
    img = label.float() * 0.8 + 0.3 * torch.randn(n, size, size, generator=gen)
    return img.unsqueeze(1), label


def main():
    cfg = SETTINGS
    torch.manual_seed(23)
    gen = torch.Generator().manual_seed(23)
    device = torch_xla.device()
    model = MiniUNet(cfg["base"], cfg["n_classes"]).to(device).train()
    criterion = DiceCE(cfg["n_classes"], cfg["dice_weight"])
    optimizer = torch.optim.SGD(
        model.parameters(), lr=cfg["lr"], momentum=cfg["momentum"], weight_decay=cfg["weight_decay"]
    )
    for it in range(cfg["iters"]):
        img, label = phantom(cfg["batch_size"], cfg["crop"], gen)
        img, label = img.to(device), label.to(device)
        optimizer.zero_grad()
        loss = criterion(model(img), label)
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        xm.master_print(f"iter {it}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
