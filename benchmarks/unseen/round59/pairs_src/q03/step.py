"""Small window-attention classifier with CutMix and weight averaging."""
import copy
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

IMG, WIN, DIM, CLASSES, BATCH = 16, 2, 16, 10, 8
AVG_EVERY, AVG_DECAY = 4, 0.99


class WindowBlock(nn.Module):
    def __init__(self, dim, res, heads, shift):
        super().__init__()
        self.res, self.heads, self.shift = res, heads, shift
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.bias = nn.Parameter(torch.zeros(heads, WIN * WIN, WIN * WIN))

    def windows(self, x):
        b, n = x.size(0), self.res // WIN
        x = x.view(b, n, WIN, n, WIN, -1).transpose(2, 3)
        return x.reshape(b * n * n, WIN * WIN, -1)

    def unwindows(self, w, b):
        n = self.res // WIN
        return w.view(b, n, n, WIN, WIN, -1).transpose(2, 3).reshape(b, self.res, self.res, -1)

    def forward(self, x):
        b, c = x.size(0), x.size(-1)
        h = self.norm1(x)
        if self.shift:
            h = torch.roll(h, (-self.shift, -self.shift), (1, 2))
        w = self.windows(h)
        q, k, v = self.qkv(w).view(w.size(0), WIN * WIN, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = (q * (c // self.heads) ** -0.5) @ k.transpose(-1, -2) + self.bias
        w = self.proj((a.softmax(-1) @ v).transpose(1, 2).reshape(w.shape))
        h = self.unwindows(w, b)
        if self.shift:
            h = torch.roll(h, (self.shift, self.shift), (1, 2))
        x = x + h
        return x + self.fc2(F.relu(self.fc1(self.norm2(x))))


class Merge(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.red = nn.LayerNorm(4 * dim), nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        return self.red(self.norm(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, DIM, 4, 4)
        self.block, self.merge = WindowBlock(DIM, 4, 2, 1), Merge(DIM)
        self.norm, self.head = nn.LayerNorm(2 * DIM), nn.Linear(2 * DIM, CLASSES)

    def forward(self, x):
        x = self.stem(x).permute(0, 2, 3, 1)
        x = self.merge(self.block(x))
        return self.head(self.norm(x).mean((1, 2)))


class CutMix:
    def __init__(self, alpha, classes, seed):
        self.alpha, self.classes, self.rng = alpha, classes, np.random.default_rng(seed)

    def box(self, size, lam):
        cut = int(size * np.sqrt(1.0 - lam))
        cy, cx = self.rng.integers(0, size, 2)
        y0, y1 = np.clip([cy - cut // 2, cy + cut // 2], 0, size)
        x0, x1 = np.clip([cx - cut // 2, cx + cut // 2], 0, size)
        return int(y0), int(y1), int(x0), int(x1)

    def __call__(self, images, labels):
        size = images.size(-1)
        y0, y1, x0, x1 = self.box(size, self.rng.beta(self.alpha, self.alpha))
        lam = 1.0 - (y1 - y0) * (x1 - x0) / size ** 2
        images = images.clone()
        images[:, :, y0:y1, x0:x1] = images.flip(0)[:, :, y0:y1, x0:x1]
        hot = F.one_hot(labels, self.classes).float()
        return images, hot * lam + hot.flip(0) * (1.0 - lam)


@torch.no_grad()
def average(avg, model):
    for a, p in zip(avg.parameters(), model.parameters()):
        a.lerp_(p, 1.0 - AVG_DECAY)


def main():
    torch.manual_seed(11)
    device = torch_xla.device()
    model = Net().to(device)
    avg = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, foreach=False)
    mix = CutMix(1.0, CLASSES, 7)
    gen = torch.Generator().manual_seed(0)
    torch_xla.sync()
    for step in range(1, 13):
        images = torch.randn(BATCH, 3, IMG, IMG, generator=gen).to(device)
        labels = torch.randint(0, CLASSES, (BATCH,), generator=gen).to(device)
        images, target = mix(images, labels)
        opt.zero_grad()
        loss = torch.sum(-target * F.log_softmax(model(images), -1), -1).mean()
        loss.backward()
        opt.step()
        if step % AVG_EVERY == 0:
            average(avg, model)
        torch_xla.sync()
        print(step, round(loss.item(), 4), flush=True)


if __name__ == "__main__":
    main()
