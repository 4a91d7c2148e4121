import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

torch.manual_seed(3)
device = torch_xla.device()

NUM_CLASSES = 5
WIDTH = 8
BATCH = 12
STEPS = 12
EMA_MAX = 0.999


def conv_bn(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(cout),
    )


class Block(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.a = conv_bn(ch, ch)
        self.b = conv_bn(ch, ch)

    def forward(self, x):
        y = F.relu(self.a(x))
        return F.relu(x + self.b(y))


class SmallResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = conv_bn(3, WIDTH)
        self.block = Block(WIDTH)
        self.down = conv_bn(WIDTH, 2 * WIDTH, stride=2)
        self.head = nn.Linear(2 * WIDTH, NUM_CLASSES)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = self.block(x)
        x = F.relu(self.down(x))
        return self.head(x.mean(dim=(2, 3)))


class WeightAverager:
    """Shadow copy of the weights, with the usual (1+n)/(10+n) ramp."""

    def __init__(self, module, max_decay):
        self.max_decay = max_decay
        self.num_updates = 0
        self.shadow = {
            k: p.detach().clone() for k, p in module.named_parameters()
        }

    @torch.no_grad()
    def update(self, module):
        n = self.num_updates
        decay = min(self.max_decay, (1 + n) / (10 + n))
        for k, p in module.named_parameters():
            self.shadow[k].mul_(decay).add_(p.detach(), alpha=1 - decay)
        self.num_updates += 1


def batches(n):
    g = torch.Generator().manual_seed(17)
    protos = torch.randn(NUM_CLASSES, 3, 8, 8, generator=g)
    for _ in range(n):
        y = torch.randint(0, NUM_CLASSES, (BATCH,), generator=g)
        x = protos[y] + 0.5 * torch.randn(BATCH, 3, 8, 8, generator=g)
        yield x, y


def main():
    net = SmallResNet().to(device)
    decay, no_decay = [], []
    for p in net.parameters():
        (decay if p.ndim > 1 else no_decay).append(p)
    opt = torch.optim.SGD(
        [
            {"params": decay, "weight_decay": 1e-4},
            {"params": no_decay, "weight_decay": 0.0},
        ],
        lr=0.05,
        momentum=0.9,
    )
    ema = WeightAverager(net, EMA_MAX)
    torch_xla.sync()

    for i, (x, y) in enumerate(batches(STEPS)):
        x, y = x.to(device), y.to(device)
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        ema.update(net)
        torch_xla.sync()
        print("iter %d loss %.4f" % (i, loss.item()))


if __name__ == "__main__":
    main()
