"""Anchor-free detector for round cells in synthetic fluorescence micrographs."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

IMAGE, STRIDE = 64, 4
GRID = IMAGE // STRIDE


class Micrographs(Dataset):
    """Gaussian blobs on a noisy background, boxes as (x1, y1, x2, y2)."""

    def __init__(self, size, seed):
        self.size, self.seed = size, seed

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 10007 + i)
        n = int(rng.integers(3, 36))
        centre = rng.uniform(4, IMAGE - 4, size=(n, 2))
        radius = rng.uniform(2.0, 5.0, size=n)
        yy, xx = np.mgrid[0:IMAGE, 0:IMAGE]
        image = rng.normal(0.1, 0.05, size=(IMAGE, IMAGE))
        for (cx, cy), r in zip(centre, radius):
            image += rng.uniform(0.5, 1.0) * np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (r * r))
        boxes = np.concatenate([centre - radius[:, None], centre + radius[:, None]], axis=1)
        return torch.from_numpy(image[None]).float(), torch.from_numpy(boxes).float()


def collate(samples):
    images = torch.stack([s[0] for s in samples])
    slots = max(len(s[1]) for s in samples)
    boxes = torch.zeros(len(samples), slots, 4)
    valid = torch.zeros(len(samples), slots, dtype=torch.bool)
    for row, (_, b) in enumerate(samples):
        boxes[row, :len(b)] = b
        valid[row, :len(b)] = True
    return images, boxes, valid


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.GroupNorm(4, cout), nn.SiLU())


class CellDetector(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Sequential(conv(1, width, 2), conv(width, width * 2, 2))
        self.tower = nn.Sequential(conv(width * 2, width * 2))
        self.objectness = nn.Conv2d(width * 2, 1, 1)
        self.distances = nn.Conv2d(width * 2, 4, 1)
        nn.init.constant_(self.objectness.bias, -2.0)

    def forward(self, images):
        h = self.tower(self.stem(images))
        obj = self.objectness(h).flatten(1)
        ltrb = F.softplus(self.distances(h)).flatten(2).transpose(1, 2) * STRIDE
        return obj, ltrb


def grid_points(device):
    axis = (torch.arange(GRID, dtype=torch.float32) + 0.5) * STRIDE
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], dim=1).to(device)


def assign(points, boxes, valid):
    """Each grid point goes to the smallest box that contains it."""
    lt = points[None, None] - boxes[:, :, None, :2]
    rb = boxes[:, :, None, 2:] - points[None, None]
    ltrb = torch.cat([lt, rb], dim=-1)
    inside = (ltrb.amin(dim=-1) > 0) & valid[:, :, None]
    area = ((boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1]))[:, :, None]
    cost, owner = torch.where(inside, area, torch.full_like(area, 1e6)).min(dim=1)
    target = ltrb.gather(1, owner[:, None, :, None].expand(-1, 1, -1, 4)).squeeze(1)
    return cost < 1e5, target


def iou_ltrb(pred, target):
    wh = torch.minimum(pred, target)
    inter = (wh[..., 0] + wh[..., 2]).clamp(min=0) * (wh[..., 1] + wh[..., 3]).clamp(min=0)
    area = lambda d: (d[..., 0] + d[..., 2]) * (d[..., 1] + d[..., 3])
    return inter / (area(pred) + area(target) - inter).clamp(min=1e-6)


def detection_loss(obj, ltrb, positive, target, neg_ratio=3):
    bce = F.binary_cross_entropy_with_logits(obj, positive.float(), reduction="none")
    num_pos = positive.sum()
    pos_loss = (bce * positive).sum()
    background = torch.where(positive, torch.zeros_like(bce), bce).flatten()
    num_neg = min(neg_ratio * int(num_pos), background.numel())
    hardest = background.topk(num_neg).values
    denom = num_pos.clamp(min=1).float()
    iou = iou_ltrb(ltrb, target)
    box_loss = ((1.0 - iou) * positive).sum() / denom
    return (pos_loss + hardest.sum()) / denom, box_loss, (iou * positive).sum() / denom


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    loader = DataLoader(Micrographs(160, seed=4), batch_size=4, shuffle=True, drop_last=True,
                        collate_fn=collate, generator=torch.Generator().manual_seed(6))
    points = grid_points(device)
    model = CellDetector().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)

    for step, (images, boxes, valid) in enumerate(loader, start=1):
        images, boxes, valid = images.to(device), boxes.to(device), valid.to(device)
        positive, target = assign(points, boxes, valid)
        obj, ltrb = model(images)
        cls_loss, box_loss, iou = detection_loss(obj, ltrb, positive, target)
        loss = cls_loss + 2.0 * box_loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 4 == 0:
            print(f"step {step:3d}  cls {cls_loss.item():.3f}  box {box_loss.item():.3f}  iou {iou.item():.3f}")
        if step == 16:
            break


if __name__ == "__main__":
    main()
