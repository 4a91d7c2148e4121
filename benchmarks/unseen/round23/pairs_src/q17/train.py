"""Two-phase image training: low resolution first, then a full-size phase."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

PHASES = [
    dict(name="low", epochs=1, size=8, mixup=0.4),
    dict(name="full", epochs=1, size=12, mixup=0.0),
]
STEPS_PER_EPOCH = 4
BATCH = 6
CLASSES = 4


class SqueezeExcite(nn.Module):
    def __init__(self, ch, r=4):
        super().__init__()
        self.down = nn.Conv2d(ch, ch // r, 1)
        self.up = nn.Conv2d(ch // r, ch, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.up(F.relu(self.down(s))))


class MBConv(nn.Module):
    def __init__(self, ch, expand=2):
        super().__init__()
        mid = ch * expand
        self.pw = nn.Conv2d(ch, mid, 1, bias=False)
        self.gn1 = nn.GroupNorm(2, mid)
        self.dw = nn.Conv2d(mid, mid, 3, padding=1, groups=mid, bias=False)
        self.gn2 = nn.GroupNorm(2, mid)
        self.se = SqueezeExcite(mid)
        self.out = nn.Conv2d(mid, ch, 1, bias=False)

    def forward(self, x):
        y = F.hardswish(self.gn1(self.pw(x)))
        y = F.hardswish(self.gn2(self.dw(y)))
        return x + self.out(self.se(y))


class TinyNet(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.stem = nn.Conv2d(3, ch, 3, stride=2, padding=1)
        self.block = MBConv(ch)
        self.fc = nn.Linear(ch, CLASSES)

    def forward(self, x):
        x = self.block(self.stem(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Images:
    def __init__(self, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.proto = torch.rand(CLASSES, 3, 12, 12, generator=self.g)

    def batch(self, size):
        y = torch.randint(0, CLASSES, (BATCH,), generator=self.g)
        x = self.proto[y] + 0.2 * torch.randn(BATCH, 3, 12, 12, generator=self.g)
        if size != x.shape[-1]:
            x = F.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)
        return x, y


def mixup_loss(net, x, y, lam, perm):
    mixed = lam * x + (1 - lam) * x[perm]
    logits = net(mixed)
    return lam * F.cross_entropy(logits, y) + (1 - lam) * F.cross_entropy(logits, y[perm])


def train_step(net, opt, images, phase, device, rng):
    x, y = images.batch(phase["size"])
    x, y = x.to(device), y.to(device)
    opt.zero_grad()
    if phase["mixup"] > 0:
        conc = torch.tensor(phase["mixup"])
        lam = torch.distributions.Beta(conc, conc).sample().to(device)
        perm = torch.randperm(BATCH, generator=rng).to(device)
        loss = mixup_loss(net, x, y, lam, perm)
    else:
        loss = F.cross_entropy(net(x), y)
    loss.backward()
    xm.optimizer_step(opt)
    return loss.detach()


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    rng = torch.Generator().manual_seed(4)
    net = TinyNet().to(device)
    opt = torch.optim.NAdam(net.parameters(), lr=4e-3)
    images = Images()
    for phase in PHASES:
        for epoch in range(phase["epochs"]):
            total = 0.0
            for _ in range(STEPS_PER_EPOCH):
                with torch_xla.step():
                    loss = train_step(net, opt, images, phase, device, rng)
                total += loss.item()
            print(f"{phase['name']} epoch {epoch}: {total / STEPS_PER_EPOCH:.4f}")


if __name__ == "__main__":
    main()
