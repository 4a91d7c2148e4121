"""Attention-based multiple-instance learning on slide-level labels."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FEAT = 48
SLIDES_PER_BATCH = 4
PATCH_BUDGET = 128
STEPS = 20


class PatchEncoder(nn.Module):
    def __init__(self, in_dim, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(in_dim, dim), nn.ReLU(),
            nn.Linear(dim, dim), nn.ReLU(),
        )

    def forward(self, x):
        return self.net(x)


class GatedAttentionPool(nn.Module):
    def __init__(self, dim, attn_dim):
        super().__init__()
        self.v = nn.Linear(dim, attn_dim)
        self.u = nn.Linear(dim, attn_dim)
        self.w = nn.Linear(attn_dim, 1)

    def scores(self, h):
        return self.w(torch.tanh(self.v(h)) * torch.sigmoid(self.u(h)))

    def forward(self, h, counts):
        scores = self.scores(h)
        pooled = []
        for feats, s in zip(h.split(counts), scores.split(counts)):
            attn = F.softmax(s, dim=0)
            pooled.append((attn * feats).sum(dim=0))
        return torch.stack(pooled)


class SlideClassifier(nn.Module):
    def __init__(self, in_dim=FEAT, dim=32, attn_dim=16, num_classes=3):
        super().__init__()
        self.encoder = PatchEncoder(in_dim, dim)
        self.pool = GatedAttentionPool(dim, attn_dim)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, patches, counts):
        return self.head(self.pool(self.encoder(patches), counts))


class SlideDataset:
    """Pre-extracted patch features; a slide has between 60 and 400 patches."""

    def __init__(self, num_slides, rng):
        self.rng = rng
        self.labels = rng.integers(0, 3, num_slides)
        self.centers = rng.normal(0, 1.0, (3, FEAT))
        self.num_patches = rng.integers(60, 400, num_slides)

    def patches(self, i, n):
        label = self.labels[i]
        feats = self.rng.normal(size=(n, FEAT))
        positive = self.rng.random(n) < 0.25
        feats[positive] += self.centers[label]
        return feats.astype(np.float32)


def allocate(num_patches, budget):
    """Shares the patch budget of a batch between its slides by slide size."""
    share = num_patches / num_patches.sum() * budget
    counts = np.maximum(np.floor(share).astype(int), 1)
    order = np.argsort(counts - share)
    for i in range(budget - counts.sum()):
        counts[order[i % len(counts)]] += 1
    return counts.tolist()


class SlideLoader:
    def __init__(self, dataset, rng):
        self.dataset = dataset
        self.rng = rng

    def __iter__(self):
        n = len(self.dataset.labels)
        while True:
            order = self.rng.permutation(n)
            for start in range(0, n - SLIDES_PER_BATCH + 1, SLIDES_PER_BATCH):
                chosen = order[start:start + SLIDES_PER_BATCH]
                counts = allocate(self.dataset.num_patches[chosen], PATCH_BUDGET)
                patches = np.concatenate(
                    [self.dataset.patches(i, c) for i, c in zip(chosen, counts)])
                labels = self.dataset.labels[chosen]
                yield torch.from_numpy(patches), counts, torch.from_numpy(labels)


def cosine_lr(step, total, base, warmup=4):
    if step < warmup:
        return base * (step + 1) / warmup
    return base * 0.5 * (1 + np.cos(np.pi * (step - warmup) / (total - warmup)))


def main():
    torch.manual_seed(21)
    rng = np.random.default_rng(21)
    device = torch_xla.device()

    model = SlideClassifier().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    loader = iter(SlideLoader(SlideDataset(120, rng), rng))

    model.train()
    correct = torch.zeros((), device=device)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = cosine_lr(step, STEPS, 0.05)
        patches, counts, labels = next(loader)
        patches, labels = patches.to(device), labels.to(device)
        logits = model(patches, counts)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        correct += (logits.detach().argmax(-1) == labels).sum()
        torch_xla.sync()
        if (step + 1) % 10 == 0:
            seen = 10 * SLIDES_PER_BATCH
            print(f"step {step + 1} loss {loss.item():.4f} acc {correct.item() / seen:.3f}")
            correct.zero_()


if __name__ == "__main__":
    main()
