"""Slimmable convnet: one set of weights that runs at four widths.

Every step trains one width; the widths are drawn from a shuffled deck so
that each of them gets the same number of updates.  Batch norm statistics are
kept apart for each width, as in the slimmable networks paper.
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

WIDTHS = (0.25, 0.5, 0.75, 1.0)
STEPS = 60
EVAL_EVERY = 12
BATCH = 16


class SlimConv(nn.Module):
    def __init__(self, c_in, c_out, stride=1, fixed_in=False):
        super().__init__()
        self.c_in, self.c_out, self.stride, self.fixed_in = c_in, c_out, stride, fixed_in
        self.weight = nn.Parameter(torch.empty(c_out, c_in, 3, 3))
        nn.init.kaiming_normal_(self.weight, mode="fan_out")
        self.norms = nn.ModuleDict(
            {self.key(w): nn.BatchNorm2d(int(c_out * w)) for w in WIDTHS}
        )

    @staticmethod
    def key(width):
        return str(width).replace(".", "_")

    def forward(self, x, width):
        n_in = self.c_in if self.fixed_in else int(self.c_in * width)
        n_out = int(self.c_out * width)
        x = F.conv2d(x, self.weight[:n_out, :n_in], stride=self.stride, padding=1)
        return F.relu(self.norms[self.key(width)](x))


class SlimNet(nn.Module):
    def __init__(self, n_classes=10, base=16):
        super().__init__()
        self.base = base
        self.stem = SlimConv(3, base, fixed_in=True)
        self.conv1 = SlimConv(base, base, stride=2)
        self.conv2 = SlimConv(base, base * 2, stride=2)
        self.head_w = nn.Parameter(torch.randn(n_classes, base * 2) * 0.05)
        self.head_b = nn.Parameter(torch.zeros(n_classes))

    def forward(self, x, width):
        x = self.stem(x, width)
        x = self.conv1(x, width)
        x = self.conv2(x, width).mean((2, 3))
        return F.linear(x, self.head_w[:, : x.shape[1]], self.head_b)


class Textures(torch.utils.data.Dataset):
    """Ten oriented gratings with noise."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 10, (n,), generator=g)
        ang = self.y.float() * torch.pi / 10
        yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
        phase = torch.rand(n, 1, 1, generator=g) * 6.28
        wave = torch.sin(0.9 * (xx * ang.cos()[:, None, None] + yy * ang.sin()[:, None, None]) + phase)
        self.x = wave[:, None] + 0.4 * torch.randn(n, 3, 16, 16, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def deck_of_widths():
    while True:
        deck = list(WIDTHS)
        random.shuffle(deck)
        yield from deck


def endless(loader):
    while True:
        yield from loader


@torch.no_grad()
def evaluate(model, x, y, width):
    model.eval()
    hits = (model(x, width).argmax(-1) == y).float().mean()
    torch_xla.sync()
    model.train()
    return hits.item()


def main():
    torch.manual_seed(3)
    random.seed(3)
    device = torch_xla.device()

    train = torch.utils.data.DataLoader(Textures(320, 0), batch_size=BATCH, shuffle=True, drop_last=True)
    val = Textures(64, 1)
    val_x, val_y = val.x.to(device), val.y.to(device)

    model = SlimNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    widths = deck_of_widths()
    batches = endless(train)

    model.train()
    for step in range(STEPS):
        x, y = next(batches)
        x, y = x.to(device), y.to(device)
        width = next(widths)
        loss = F.cross_entropy(model(x, width), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()

        if (step + 1) % EVAL_EVERY == 0:
            accs = [evaluate(model, val_x, val_y, w) for w in WIDTHS]
            shown = "  ".join(f"{w:.2f}x {a:.2f}" for w, a in zip(WIDTHS, accs))
            print(f"step {step + 1:3d}  loss {loss.item():.3f}  acc {shown}")


if __name__ == "__main__":
    main()
