import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BN_ARGS = dict(momentum=0.1, eps=1e-5)


class ConvBNAct(nn.Module):
    def __init__(self, cin, cout, k=3, stride=1, groups=1, act=True):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(cout, **BN_ARGS)
        self.act = nn.SiLU() if act else nn.Identity()

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class SqueezeExcite(nn.Module):
    def __init__(self, c, r=4):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(c, c // r, 1), nn.Conv2d(c // r, c, 1)

    def forward(self, x):
        s = F.adaptive_avg_pool2d(x, 1)
        return x * torch.sigmoid(self.expand(F.silu(self.reduce(s))))


class MBConv(nn.Module):
    def __init__(self, cin, cout, expand, stride):
        super().__init__()
        mid = cin * expand
        self.skip = stride == 1 and cin == cout
        self.body = nn.Sequential(
            ConvBNAct(cin, mid, 1),
            ConvBNAct(mid, mid, 3, stride, groups=mid),
            SqueezeExcite(mid),
            ConvBNAct(mid, cout, 1, act=False),
        )

    def forward(self, x):
        y = self.body(x)
        return x + y if self.skip else y


class EffNetNano(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = ConvBNAct(3, 8, 3, 2)
        self.stages = nn.Sequential(MBConv(8, 8, 2, 1), MBConv(8, 16, 2, 2))
        self.tail = ConvBNAct(16, 32, 1)
        self.fc = nn.Linear(32, classes)

    def forward(self, x):
        x = self.tail(self.stages(self.stem(x)))
        return self.fc(x.mean((2, 3)))


def mixup(x, y, classes, alpha=0.2):
    lam = torch.distributions.Beta(alpha, alpha).sample((x.shape[0], 1))
    perm = torch.randperm(x.shape[0])
    onehot = F.one_hot(y, classes).float()
    x = lam[:, :, None, None] * x + (1 - lam[:, :, None, None]) * x[perm]
    return x, lam * onehot + (1 - lam) * onehot[perm]


def train(steps=12, batch=8, classes=6):
    torch.manual_seed(17)
    device = xm.xla_device()
    model = EffNetNano(classes).to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=2e-3, alpha=0.9, momentum=0.9, eps=1e-3)
    bank = torch.randn(classes, 3, 16, 16)
    for step in range(steps):
        y = torch.randint(0, classes, (batch,))
        x, soft = mixup(bank[y] + 0.3 * torch.randn(batch, 3, 16, 16), y, classes)
        logits = model(x.to(device))
        loss = F.cross_entropy(logits, soft.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        if step % 4 == 0:
            print(f"step={step} loss={loss.item():.4f}")


if __name__ == "__main__":
    train()
