# Co-teaching with noisy labels: two small CNNs pick the clean part of the batch for each other.
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_CLASS = 5
BATCH = 32
ITERS = 64
NOISE = 0.4
RAMP_ITERS = 48


def make_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, N_CLASS),
    )


class NoisyShapes:
    def __init__(self, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.proto = torch.randn(N_CLASS, 3, 16, 16, generator=self.g)

    def batch(self, n):
        y = torch.randint(0, N_CLASS, (n,), generator=self.g)
        x = self.proto[y] + 0.8 * torch.randn(n, 3, 16, 16, generator=self.g)
        flip = torch.rand(n, generator=self.g) < NOISE
        rand = torch.randint(0, N_CLASS, (n,), generator=self.g)
        return x, torch.where(flip, rand, y)


def forget_rate(it):
    return NOISE * min(1.0, it / RAMP_ITERS)


def coteach_loss(logit1, logit2, y, rate):
    l1 = F.cross_entropy(logit1, y, reduction="none")
    l2 = F.cross_entropy(logit2, y, reduction="none")
    num_keep = int((1.0 - rate) * y.size(0))
    order1 = torch.argsort(l1.detach())
    order2 = torch.argsort(l2.detach())
    pick1, pick2 = order1[:num_keep], order2[:num_keep]
    return l1[pick2].mean(), l2[pick1].mean()


def accuracy(net, x, y):
    net.eval()
    with torch.no_grad():
        acc = (net(x).argmax(1) == y).float().mean()
    net.train()
    return acc


def main():
    torch.manual_seed(1)
    dev = torch_xla.device()
    net1, net2 = make_net().to(dev), make_net().to(dev)
    opt1 = torch.optim.SGD(net1.parameters(), lr=0.05, momentum=0.9)
    opt2 = torch.optim.SGD(net2.parameters(), lr=0.05, momentum=0.9)
    data = NoisyShapes()
    hold_x, hold_y = data.batch(64)
    hold_x, hold_y = hold_x.to(dev), hold_y.to(dev)

    for it in range(ITERS):
        x, y = data.batch(BATCH)
        x, y = x.to(dev), y.to(dev)
        loss1, loss2 = coteach_loss(net1(x), net2(x), y, forget_rate(it))
        opt1.zero_grad()
        loss1.backward()
        opt1.step()
        opt2.zero_grad()
        loss2.backward()
        opt2.step()
        torch_xla.sync()

        if (it + 1) % 16 == 0:
            a1, a2 = accuracy(net1, hold_x, hold_y), accuracy(net2, hold_x, hold_y)
            torch_xla.sync()
            print(f"{it + 1:4d} keep {1 - forget_rate(it):.2f} "
                  f"loss {loss1.item():.3f}/{loss2.item():.3f} acc {a1.item():.2f}/{a2.item():.2f}")


if __name__ == "__main__":
    main()
