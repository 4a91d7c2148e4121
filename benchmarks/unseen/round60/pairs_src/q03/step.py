"""Sound event tagging on log-mel clips of different lengths (multi-label)."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

N_MELS, N_TAGS, BATCH = 40, 9, 8


class Clips(Dataset):
    """Synthetic stand-in for a directory of .npy log-mel files."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = []
        for _ in range(n):
            frames = int(rng.integers(70, 180))
            tags = (rng.random(N_TAGS) < 0.25).astype(np.float32)
            mel = rng.normal(size=(N_MELS, frames)).astype(np.float32)
            mel += (tags @ rng.normal(size=(N_TAGS, N_MELS)).astype(np.float32))[:, None]
            self.items.append((mel, tags))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items, multiple=16):
    longest = max(mel.shape[1] for mel, _ in items)
    frames = -(-longest // multiple) * multiple
    x = torch.zeros(len(items), N_MELS, frames)
    valid = torch.zeros(len(items), frames)
    for i, (mel, _) in enumerate(items):
        x[i, :, :mel.shape[1]] = torch.from_numpy(mel)
        valid[i, :mel.shape[1]] = 1.0
    tags = torch.from_numpy(np.stack([t for _, t in items]))
    return x, valid, tags


class SpecAugment(nn.Module):
    def __init__(self, max_width=8, n_masks=2):
        super().__init__()
        self.max_width, self.n_masks = max_width, n_masks

    def forward(self, x):
        if not self.training:
            return x
        x = x.clone()
        for _ in range(self.n_masks):
            width = random.randint(1, self.max_width)
            low = random.randint(0, x.shape[1] - width)
            x[:, low:low + width] = 0.0
        return x


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, kernel=5):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, kernel, padding=kernel // 2)
        self.norm = nn.BatchNorm1d(cout)

    def forward(self, x):
        return F.gelu(self.norm(self.conv(x)))


class AttentivePool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Conv1d(dim, 1, 1)

    def forward(self, h, valid):
        w = self.score(h).squeeze(1).masked_fill(valid == 0, -1e4).softmax(-1)
        mean = torch.einsum("bct,bt->bc", h, w)
        var = torch.einsum("bct,bt->bc", h * h, w) - mean * mean
        return torch.cat([mean, var.clamp(min=1e-5).sqrt()], dim=-1)


class Tagger(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.augment = SpecAugment()
        self.blocks = nn.ModuleList([ConvBlock(N_MELS, dim), ConvBlock(dim, dim), ConvBlock(dim, dim)])
        self.pool = AttentivePool(dim)
        self.out = nn.Linear(2 * dim, N_TAGS)

    def forward(self, x, valid):
        x = (x - x.mean(dim=(1, 2), keepdim=True)) * valid[:, None]
        h = self.augment(x)
        for block in self.blocks:
            h = block(h)
        return self.out(self.pool(h, valid))


def clip_grads(params, max_norm):
    total = torch.stack([p.grad.pow(2).sum() for p in params]).sum().sqrt()
    coef = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for p in params:
        p.grad.mul_(coef)
    return total


def main():
    random.seed(0)
    torch.manual_seed(0)
    device = torch_xla.device()
    loader = DataLoader(Clips(96, 0), batch_size=BATCH, shuffle=True, drop_last=True, collate_fn=collate,
                        generator=torch.Generator().manual_seed(0))
    model = Tagger().to(device)
    params = list(model.parameters())
    opt = torch.optim.AdamW(params, lr=2e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 3 * len(loader))
    model.train()
    for epoch in range(2):
        for step, (x, valid, tags) in enumerate(loader):
            x, valid, tags = x.to(device), valid.to(device), tags.to(device)
            logits = model(x, valid)
            loss = F.binary_cross_entropy_with_logits(logits, tags)
            opt.zero_grad()
            loss.backward()
            norm = clip_grads(params, 2.0)
            opt.step()
            sched.step()
            torch_xla.sync()
            if step % 6 == 5:
                print(f"{epoch}:{step} loss {loss.item():.4f} grad norm {norm.item():.3f}")


if __name__ == "__main__":
    main()
