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

    def forward(self, x):
        x = self.temporal_bn(self.temporal(x.unsqueeze(1)))
        x = F.elu(self.spatial_bn(self.spatial(x)))
        return x.squeeze(2).unflatten(-1, (-1, 8)).mean(-1).transpose(1, 2)


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.einsum("bhqd,bhkd->bhqk", q * self.scale, k).softmax(-1)
        out = torch.einsum("bhqk,bhkd->bqhd", weights, v)
        return self.proj(out.reshape(b, n, d))


class Residual(nn.Module):
    def __init__(self, dim, inner):
        super().__init__()
        self.inner = inner
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.inner(self.norm(x)) + x


class EEGNet(nn.Module):
    def __init__(self, dim=12, heads=3):
        super().__init__()
        self.head = nn.Linear(dim, CLASSES)
        self.filters = Filters()
        self.blocks = nn.Sequential(
            Residual(dim, SelfAttention(dim, heads)),
            Residual(dim, nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))))
        self.register_buffer("class_weight", torch.tensor(CLASS_WEIGHT))

    def forward(self, x):
        x = self.blocks(self.filters(x))
        return self.head(x.mean(1))

    def loss(self, logits, label):
        logp = logits - torch.logsumexp(logits, -1, keepdim=True)
        nll = -logp.gather(1, label.unsqueeze(1)).squeeze(1)
        w = self.class_weight[label]
        return (w * nll).sum() / w.sum()


def convert(old):
    new = {}
    for k, v in old.items():
        for src, dst in (("norm1", "blocks.0.norm"), ("norm2", "blocks.1.norm"),
                         ("attn.proj", "blocks.0.inner.proj"), ("mlp", "blocks.1.inner")):
            if k.startswith(src + "."):
                k = dst + k[len(src):]
                break
        if not k.startswith("attn."):
            new[k] = v
    new["blocks.0.inner.qkv.weight"] = torch.cat([old[f"attn.{n}.weight"] for n in "qkv"])
    return new


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
