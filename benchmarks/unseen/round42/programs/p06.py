"""Land-cover segmentation with a small patch mixer and hard pixel mining."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CLASSES = 4


class Block(nn.Module):
    def __init__(self, tokens, dim, keep):
        super().__init__()
        self.keep = keep
        self.norm = nn.LayerNorm(dim)
        self.mix = nn.Linear(tokens, tokens)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)

    def residual(self, x):
        h = self.norm(x)
        h = h + self.mix(h.transpose(1, 2)).transpose(1, 2)
        return self.fc2(F.relu(self.fc1(h)))

    def forward(self, x):
        if not self.training:
            return x + self.residual(x)
        if random.random() > self.keep:
            return x
        return x + self.residual(x) / self.keep


class SegNet(nn.Module):
    def __init__(self, size=16, patch=4, dim=24, depth=4, last_keep=0.5):
        super().__init__()
        self.patch, self.grid = patch, size // patch
        self.stem = nn.Linear(4 * patch * patch, dim)
        keeps = torch.linspace(0.9, last_keep, depth).tolist()
        self.blocks = nn.Sequential(*[Block(self.grid ** 2, dim, keep) for keep in keeps])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, CLASSES * patch * patch))

    def forward(self, x):
        n, c, h, w = x.shape
        x = x.view(n, c, self.grid, self.patch, self.grid, self.patch)
        x = x.permute(0, 2, 4, 1, 3, 5).reshape(n, self.grid ** 2, -1)
        y = self.head(self.blocks(self.stem(x)))
        y = y.view(n, self.grid, self.grid, CLASSES, self.patch, self.patch)
        return y.permute(0, 3, 1, 4, 2, 5).reshape(n, CLASSES, h, w)


class MinedCrossEntropy(nn.Module):
    """Cross entropy over the hardest pixels; easy ones fade out during training."""

    def __init__(self, start=0.9, end=0.25, span=14, weight=None):
        super().__init__()
        self.start, self.end, self.span = start, end, span
        self.register_buffer("weight", weight)

    def fraction(self, step):
        t = min(1.0, step / self.span)
        return self.start + t * (self.end - self.start)

    def forward(self, logits, target, step):
        pixel = F.cross_entropy(logits, target, weight=self.weight, reduction="none").flatten(1)
        hard = max(16, int(self.fraction(step) * pixel.size(1)))
        return pixel.topk(hard, dim=1).values.mean()


class Tiles:
    """Synthetic four-band tiles made of a few rectangular parcels."""

    def __init__(self, size=16, seed=0):
        self.size = size
        self.gen = torch.Generator().manual_seed(seed)
        self.signature = torch.randn(CLASSES, 4, generator=self.gen)

    def batch(self, n):
        s = self.size
        label = torch.zeros(n, s, s, dtype=torch.long)
        for i in range(n):
            for _ in range(5):
                y, x = torch.randint(0, s - 6, (2,), generator=self.gen).tolist()
                h, w = torch.randint(4, 9, (2,), generator=self.gen).tolist()
                cls = int(torch.randint(0, CLASSES, (1,), generator=self.gen))
                label[i, y:y + h, x:x + w] = cls
        bands = self.signature[label].permute(0, 3, 1, 2)
        return bands + 0.7 * torch.randn(n, 4, s, s, generator=self.gen), label


@torch.no_grad()
def mean_iou(model, tiles, device, batches=1):
    model.eval()
    inter = torch.zeros(CLASSES, device=device)
    union = torch.zeros(CLASSES, device=device)
    for _ in range(batches):
        image, label = (t.to(device) for t in tiles.batch(8))
        pred = F.one_hot(model(image).argmax(1), CLASSES).bool()
        true = F.one_hot(label, CLASSES).bool()
        inter += (pred & true).sum(dim=(0, 1, 2))
        union += (pred | true).sum(dim=(0, 1, 2))
        xm.mark_step()
    model.train()
    return (inter / union.clamp(min=1)).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=16)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--eval-every", type=int, default=8)
    args = ap.parse_args()

    random.seed(8)
    torch.manual_seed(8)
    device = torch_xla.device()
    train, val = Tiles(seed=8), Tiles(seed=8)
    model = SegNet().to(device).train()
    criterion = MinedCrossEntropy(weight=torch.tensor([0.7, 1.0, 1.0, 1.2])).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    xm.mark_step()

    for step in range(args.steps):
        image, label = (t.to(device) for t in train.batch(args.batch))
        opt.zero_grad()
        loss = criterion(model(image), label, step)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        xm.mark_step()
        if (step + 1) % args.eval_every == 0:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}  "
                  f"miou {mean_iou(model, val, device):.3f}")


if __name__ == "__main__":
    main()
