# Small vision transformer for leaf disease classification (5 classes).
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.qkv(x).view(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        weights = torch.softmax((q @ k.transpose(-2, -1)) * self.scale, dim=-1)
        out = (weights @ v).transpose(1, 2).reshape(b, n, d)
        return self.proj(out), weights


class EncoderBlock(nn.Module):
    def __init__(self, dim, heads, mlp_ratio=2):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim)
        )

    def forward(self, x):
        y, weights = self.attn(self.norm1(x))
        x = x + y
        return x + self.mlp(self.norm2(x)), weights


class LeafViT(nn.Module):
    def __init__(self, img=32, patch=8, dim=32, depth=2, heads=4, classes=5):
        super().__init__()
        n = (img // patch) ** 2
        self.patchify = nn.Conv2d(3, dim, patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)
        self.blocks = nn.ModuleList(EncoderBlock(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.patchify(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.pos
        weights = None
        for blk in self.blocks:
            x, weights = blk(x)
        rollout = weights[:, :, 0, 1:].mean(dim=1)
        return self.head(self.norm(x)[:, 0]), rollout


class Trainer:
    def __init__(self, model, device, lr=0.05, snapshot_every=4):
        self.model = model.to(device)
        self.device = device
        self.opt = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9, nesterov=True)
        self.snapshot_every = snapshot_every
        self.saliency = None
        self.step = 0

    def train_step(self, images, labels):
        self.opt.zero_grad()
        logits, rollout = self.model(images)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        self.opt.step()
        self.step += 1
        if self.step % self.snapshot_every == 0:
            self.saliency = rollout.detach()
        return loss.detach()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            t0, losses = time.time(), []
            for images, labels in loader:
                losses.append(self.train_step(images, labels))
            mean = torch.stack(losses).mean().item()
            xm.master_print(f"[{epoch}] loss={mean:.3f} ({time.time() - t0:.1f}s)")
            if self.saliency is not None:
                xm.master_print("focus", self.saliency.mean(dim=0).cpu().topk(3).indices.tolist())


def leaves(n=96):
    g = torch.Generator().manual_seed(11)
    y = torch.randint(0, 5, (n,), generator=g)
    x = torch.randn(n, 3, 32, 32, generator=g) + y.view(-1, 1, 1, 1) * 0.1
    return TensorDataset(x, y)


if __name__ == "__main__":
    torch.manual_seed(0)
    dev = torch_xla.device()
    train = pl.MpDeviceLoader(DataLoader(leaves(), batch_size=8, drop_last=True), dev)
    Trainer(LeafViT(), dev).fit(train, epochs=1)
