"""Motor-imagery EEG classifier: temporal and spatial filters, one attention block, weighted cross entropy."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ELECTRODES, SAMPLES, BATCH, CLASSES = 8, 64, 8, 4
CLASS_WEIGHT = (1.0, 1.3, 0.8, 1.1)


class Filters(nn.Module):
    def __init__(self, kernels=6, depth=2):
        super().__init__()
        self.temporal = nn.Conv2d(1, kernels, (1, 9), padding=(0, 4), bias=False)
        self.temporal_bn = nn.BatchNorm2d(kernels)
        self.spatial = nn.Conv2d(kernels, depth * kernels, (ELECTRODES, 1), groups=kernels, bias=False)
        self.spatial_bn = nn.BatchNorm2d(depth * kernels)
        self.pool = nn.AvgPool2d((1, 8))

    def forward(self, x):
        x = self.temporal_bn(self.temporal(x.unsqueeze(1)))
        x = F.elu(self.spatial_bn(self.spatial(x)))
        return self.pool(x).squeeze(2).transpose(1, 2)


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = dim ** -0.5
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        out = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.proj(out.transpose(1, 2).flatten(2))


class EEGNet(nn.Module):
    def __init__(self, dim=12, heads=3):
        super().__init__()
        self.filters = Filters()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
        self.head = nn.Linear(dim, CLASSES)
        self.register_buffer("class_weight", torch.tensor(CLASS_WEIGHT))

    def forward(self, x):
        x = self.filters(x)
        x = x + self.attn(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return self.head(x.mean(1))

    def loss(self, logits, label):
        return F.cross_entropy(logits, label, weight=self.class_weight, label_smoothing=0.0)


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, nesterov=True, weight_decay=5e-4)


def trials(seed):
    rng = np.random.default_rng(seed)
    t = np.arange(SAMPLES) / 64
    while True:
        y = rng.integers(0, CLASSES, BATCH)
        x = rng.normal(size=(BATCH, ELECTRODES, SAMPLES))
        x[np.arange(BATCH), y * 2] += 2 * np.sin(2 * np.pi * 10 * t)
        yield torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


def train_step(model, opt, x, y, stats):
    logits = model(x)
    loss = model.loss(logits, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    stats["loss"] += loss.detach()
    stats["correct"] += (logits.argmax(-1) == y).sum()


def main(steps=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = EEGNet().to(device).train()
    opt = make_optimizer(model)
    stats = {"loss": torch.zeros((), device=device), "correct": torch.zeros((), dtype=torch.long, device=device)}
    torch_xla.sync()
    data = trials(9)
    for _ in range(steps):
        x, y = (v.to(device) for v in next(data))
        train_step(model, opt, x, y, stats)
        torch_xla.sync()
    print("loss", stats["loss"].item() / steps, "acc", stats["correct"].item() / steps / BATCH)


if __name__ == "__main__":
    main()
