import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

EPOCHS, ITERS, VAL_ITERS, BS, CLASSES = 3, 6, 2, 4, 4


class DoubleConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.GroupNorm(2, cout), nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.GroupNorm(2, cout), nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.body(x)


class UNet(nn.Module):
    def __init__(self, classes, width=6):
        super().__init__()
        self.inc = DoubleConv(3, width)
        self.down1 = DoubleConv(width, width * 2)
        self.down2 = DoubleConv(width * 2, width * 4)
        self.up1 = nn.ConvTranspose2d(width * 4, width * 2, 2, 2)
        self.dec1 = DoubleConv(width * 4, width * 2)
        self.up2 = nn.ConvTranspose2d(width * 2, width, 2, 2)
        self.dec2 = DoubleConv(width * 2, width)
        self.drop = nn.Dropout2d(0.1)
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        a = self.inc(x)
        b = self.down1(F.max_pool2d(a, 2))
        c = self.down2(F.max_pool2d(b, 2))
        y = self.dec1(torch.cat([self.up1(c), b], 1))
        y = self.dec2(torch.cat([self.up2(y), a], 1))
        return self.out(self.drop(y))


def dice_loss(logits, target, eps=1.0):
    prob = logits.softmax(1)
    onehot = F.one_hot(target, CLASSES).permute(0, 3, 1, 2).to(prob.dtype)
    inter = (prob * onehot).sum((0, 2, 3))
    denom = prob.sum((0, 2, 3)) + onehot.sum((0, 2, 3))
    return 1 - ((2 * inter + eps) / (denom + eps)).mean()


def make_batch(gen):
    target = torch.randint(0, CLASSES, (BS, 4, 4), generator=gen)
    target = target.repeat_interleave(4, 1).repeat_interleave(4, 2)
    img = torch.randn(BS, 3, 16, 16, generator=gen) * 0.3 + target.unsqueeze(1) * 0.5
    return img, target


@torch.no_grad()
def validate(model, batches, device):
    model.eval()
    inter = torch.zeros(CLASSES, device=device)
    union = torch.zeros(CLASSES, device=device)
    for img, target in batches:
        pred = model(img.to(device)).argmax(1)
        target = target.to(device)
        for c in range(CLASSES):
            p, t = pred == c, target == c
            inter[c] += (p & t).sum()
            union[c] += (p | t).sum()
        torch_xla.sync()
    return (inter / union.clamp(min=1)).mean().item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(5)
    device = torch_xla.device()
    train = [make_batch(gen) for _ in range(ITERS)]
    val = [make_batch(gen) for _ in range(VAL_ITERS)]
    model = UNet(CLASSES).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    model.train()
    for epoch in range(EPOCHS):
        running = 0.0
        for i, (img, target) in enumerate(train):
            img, target = img.to(device), target.to(device)
            opt.zero_grad()
            logits = model(img)
            loss = F.cross_entropy(logits, target) + 0.5 * dice_loss(logits, target)
            loss.backward()
            opt.step()
            torch_xla.sync()
            if i % 3 == 0:
                running += loss.item()
        miou = validate(model, val, device)
        print(f"epoch {epoch}: loss {running / 2:.4f} mIoU {miou:.3f}")


if __name__ == "__main__":
    main()
