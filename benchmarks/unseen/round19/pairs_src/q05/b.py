"""Fine-tune a segmentation head and its encoder; small U-shaped net."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def cbr(i, o, stride=1, norm=nn.BatchNorm2d):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), norm(o), nn.ReLU(inplace=True))


class FrozenStats(nn.BatchNorm2d):
    """Batch norm that always uses the pre-trained statistics; weight and bias are trained."""

    def forward(self, x):
        scale = self.weight * torch.rsqrt(self.running_var + self.eps)
        shift = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + shift[:, None, None]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.s1 = cbr(3, 8, norm=FrozenStats)
        self.s2 = cbr(8, 16, 2, norm=FrozenStats)
        self.s3 = cbr(16, 24, 2, norm=FrozenStats)

    def forward(self, x):
        a = self.s1(x)
        b = self.s2(a)
        return a, b, self.s3(b)


class Seg(nn.Module):
    def __init__(self, n_cls=5):
        super().__init__()
        self.encoder = Encoder()
        self.u2 = nn.ConvTranspose2d(24, 24, 2, 2)
        self.d2 = cbr(24 + 16, 16)
        self.u1 = nn.ConvTranspose2d(16, 16, 2, 2)
        self.d1 = cbr(16 + 8, 8)
        self.out = nn.Conv2d(8, n_cls, 1)

    def forward(self, x):
        a, b, c = self.encoder(x)
        h = self.d2(torch.cat([self.u2(c), b], 1))
        h = self.d1(torch.cat([self.u1(h), a], 1))
        return self.out(h)


def main():
    torch.manual_seed(3)
    dev = torch_xla.device()
    model = Seg().to(dev).train()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for i in range(4):
        x = torch.randn(4, 3, 32, 32).to(dev)
        y = torch.randint(0, 5, (4, 32, 32)).to(dev)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
