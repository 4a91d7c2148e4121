"""Single-path one-shot supernet for land-cover patches: weight sharing, then ranking."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BANDS = 6
SIZE = 12
CLASSES = 5
BATCH = 16
STEPS = 18
WIDTH = 12
DEPTH = 4


class PatchSource:
    """Multispectral patches: per-class spectra with a class-specific stripe texture."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        proto = torch.Generator().manual_seed(0)
        self.spectra = torch.randn(CLASSES, BANDS, generator=proto)
        self.freq = torch.linspace(0.4, 2.4, CLASSES)

    def batch(self, n=BATCH):
        y = torch.randint(0, CLASSES, (n,), generator=self.gen)
        phase = torch.rand(n, 1, generator=self.gen) * 6.28
        line = torch.sin(self.freq[y].unsqueeze(1) * torch.arange(SIZE) + phase)
        texture = line.view(n, 1, SIZE, 1).expand(n, 1, SIZE, SIZE)
        x = self.spectra[y].view(n, BANDS, 1, 1) * 0.4 + texture
        return x + 0.6 * torch.randn(n, BANDS, SIZE, SIZE, generator=self.gen), y


class SepConv(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.dw = nn.Conv2d(c, c, k, padding=k // 2, groups=c, bias=False)
        self.pw = nn.Conv2d(c, c, 1)

    def forward(self, x):
        return F.relu(self.pw(self.dw(x)))


class PoolProj(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.pw = nn.Conv2d(c, c, 1)

    def forward(self, x):
        return F.relu(self.pw(F.avg_pool2d(x, 3, stride=1, padding=1)))


class ChoiceBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ops = nn.ModuleList([SepConv(c, 3), SepConv(c, 5), PoolProj(c)])

    def forward(self, x, choice):
        return x + self.ops[choice](x)


class SuperNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(BANDS, WIDTH, 3, padding=1)
        self.blocks = nn.ModuleList(ChoiceBlock(WIDTH) for _ in range(DEPTH))
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, arch):
        x = F.relu(self.stem(x))
        for block, choice in zip(self.blocks, arch):
            x = block(x, choice)
        return self.fc(x.mean(dim=(2, 3)))

    def sample(self, rng):
        return tuple(rng.randrange(len(b.ops)) for b in self.blocks)


def train_supernet(model, source, device, rng):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    model.train()
    for step in range(1, STEPS + 1):
        x, y = source.batch()
        x, y = x.to(device), y.to(device)
        arch = model.sample(rng)
        loss = F.cross_entropy(model(x, arch), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        torch_xla.sync()
        if step % 5 == 0:
            print(f"step {step:3d}  arch {arch}  loss {loss.item():.4f}")


@torch.no_grad()
def score(model, source, arch, device, batches=2):
    model.eval()
    hits = 0
    for _ in range(batches):
        x, y = source.batch()
        pred = model(x.to(device), arch).argmax(1)
        torch_xla.sync()
        hits += (pred.cpu() == y).sum().item()
    return hits / (batches * BATCH)


def main():
    torch.manual_seed(41)
    rng = random.Random(42)
    device = torch_xla.device()
    xm.set_rng_state(41, device)
    model = SuperNet().to(device)
    torch_xla.sync()

    train_supernet(model, PatchSource(43), device, rng)
    for arch in ((0, 0, 0, 0), (1, 1, 1, 1)):
        print(f"arch {arch}  acc {score(model, PatchSource(44), arch, device):.3f}")


if __name__ == "__main__":
    main()
