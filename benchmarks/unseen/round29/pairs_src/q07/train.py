"""Binary segmentation of blobs, small U-shaped net, periodic validation."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Norm2d(nn.Module):

    def __init__(self, channels, rate=0.1, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("avg", torch.zeros(channels))
        self.register_buffer("var", torch.ones(channels))
        self.rate, self.eps = rate, eps

    def forward(self, x):
        if self.training:
            avg = x.mean((0, 2, 3))
            var = x.var((0, 2, 3), unbiased=False)
            with torch.no_grad():
                self.avg.lerp_(avg, self.rate)
                self.var.lerp_(var, self.rate)
        else:
            avg, var = self.avg, self.var
        gain = self.weight * torch.rsqrt(var + self.eps)
        return x * gain[:, None, None] + (self.bias - avg * gain)[:, None, None]


def conv_norm(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        Norm2d(cout),
        nn.ReLU(inplace=True),
    )


class BlobNet(nn.Module):

    def __init__(self, width=8):
        super().__init__()
        self.stem = conv_norm(1, width)
        self.down = conv_norm(width, 2 * width, stride=2)
        self.deep = conv_norm(2 * width, 4 * width, stride=2)
        self.lat = nn.Conv2d(2 * width, 2 * width, 1)
        self.squeeze = conv_norm(4 * width, 2 * width)
        self.fuse = conv_norm(2 * width, width)
        self.drop = nn.Dropout2d(0.2)
        self.head = nn.Conv2d(width, 1, 1)

    @staticmethod
    def up(x):
        n, c, h, w = x.shape
        return x[:, :, :, None, :, None].expand(n, c, h, 2, w, 2).reshape(n, c, 2 * h, 2 * w)

    def forward(self, x):
        s = self.stem(x)
        d = self.down(s)
        e = self.squeeze(self.deep(d))
        m = self.lat(d) + self.up(e)
        f = self.fuse(self.up(m)) + s
        return self.head(self.drop(f)).squeeze(1)


def dice_bce(logits, target, smooth=1.0):
    prob = torch.sigmoid(logits).flatten(1)
    flat = target.flatten(1)
    inter = (prob * flat).sum(1)
    dice = 1 - (2 * inter + smooth) / (prob.sum(1) + flat.sum(1) + smooth)
    return dice.mean() + F.binary_cross_entropy_with_logits(logits, target)


def blobs(n, size, gen):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    c = torch.randint(4, size - 4, (n, 2, 1, 1), generator=gen)
    r = torch.randint(2, 5, (n, 1, 1), generator=gen)
    mask = (((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2) < r * r).float()
    img = mask + 0.4 * torch.randn(n, size, size, generator=gen)
    return img.unsqueeze(1), mask


@torch.no_grad()
def validate(model, batches, device):
    model.eval()
    inter = union = 0.0
    for img, mask in batches:
        pred = model(img.to(device)) > 0
        truth = mask.to(device) > 0.5
        inter += (pred & truth).sum()
        union += (pred | truth).sum()
    torch_xla.sync()
    return (inter / union.clamp(min=1)).item()


def run(steps=8, eval_every=4, size=16, batch=4):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(17)
    device = torch_xla.device()
    model = BlobNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    held_out = [blobs(batch, size, gen) for _ in range(2)]
    model.train()
    for step in range(1, steps + 1):
        with torch_xla.step():
            img, mask = blobs(batch, size, gen)
            img, mask = img.to(device), mask.to(device)
            loss = dice_bce(model(img), mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if step % eval_every == 0:
            iou = validate(model, held_out, device)
            print(f"{step}: loss {loss.item():.3f} iou {iou:.3f}")


if __name__ == "__main__":
    run()
