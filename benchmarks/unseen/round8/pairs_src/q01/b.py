import torch, torch.nn as nn, torch.nn.functional as F
import xdump


class ConvBN(nn.Module):
    def __init__(self, i, o, k):
        super().__init__()
        self.conv = nn.Conv2d(i, o, k, padding=k // 2, bias=False)
        self.bn = nn.BatchNorm2d(o)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class Mixed(nn.Module):
    def __init__(self, i, w):
        super().__init__()
        self.b1 = ConvBN(i, w, 1)
        self.b3a = ConvBN(i, w, 1)
        self.b3b = ConvBN(w, w, 3)
        self.pool_proj = ConvBN(i, w // 2, 1)

    def forward(self, x):
        p = F.avg_pool2d(x, kernel_size=3, stride=1, padding=1, count_include_pad=False)
        return torch.cat([self.b1(x), self.b3b(self.b3a(x)), self.pool_proj(p)], 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = ConvBN(3, 16, 3)
        self.m1 = Mixed(16, 8)
        self.m2 = Mixed(20, 12)
        self.fc = nn.Linear(30, 10)

    def forward(self, x):
        x = F.max_pool2d(self.stem(x), 2)
        x = F.max_pool2d(self.m1(x), 2)
        x = self.m2(x)
        return self.fc(x.mean((2, 3)))


xdump.seed(1)
dev = xdump.device()
net = Net().to(dev)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
X = torch.randn(2, 8, 3, 16, 16).to(dev)
Y = torch.randint(0, 10, (2, 8)).to(dev)
xdump.sync()


def step(i):
    opt.zero_grad()
    loss = F.cross_entropy(net(X[i]), Y[i])
    loss.backward()
    opt.step()
    return loss


step(0)
xdump.sync()
loss = step(1)
named = list(net.named_parameters())
live = {"loss": loss}
live.update(named)
live.update(net.named_buffers())
live.update(xdump.state_of(opt, named))
xdump.dump(live)
