"""Single-shot detector for parking-lot images, on a coarse grid of anchors.

Classification uses hard-negative mining with three negatives per positive.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class GridAnchors:
    """Square anchors of two sizes at every cell of an S x S grid."""

    def __init__(self, grid, sizes):
        c = (torch.arange(grid, dtype=torch.float32) + 0.5) / grid
        cy, cx = torch.meshgrid(c, c, indexing="ij")
        boxes = []
        for s in sizes:
            boxes.append(torch.stack([cx, cy, torch.full_like(cx, s), torch.full_like(cy, s)], -1))
        self.boxes = torch.stack(boxes, dim=2).reshape(-1, 4)

    def __len__(self):
        return self.boxes.size(0)

    def assign(self, gt, radius=0.11):
        """Label 1 and box offsets for the anchors whose centre is near a box centre."""
        dist = torch.cdist(self.boxes[:, :2], gt[:, :2])
        near, which = dist.min(dim=1)
        label = (near < radius).long()
        matched = gt[which]
        offset = (matched[:, :2] - self.boxes[:, :2]) / self.boxes[:, 2:]
        scale = torch.log(matched[:, 2:] / self.boxes[:, 2:])
        return label, torch.cat([offset, scale], dim=1)


class LotDataset:
    def __init__(self, anchors, seed):
        self.anchors = anchors
        self.gen = torch.Generator().manual_seed(seed)

    def sample(self):
        n = int(torch.randint(1, 4, (1,), generator=self.gen))
        gt = torch.rand(n, 4, generator=self.gen) * 0.8 + 0.1
        gt[:, 2:] = gt[:, 2:] * 0.3 + 0.1
        image = torch.rand(3, 32, 32, generator=self.gen)
        return (image, *self.anchors.assign(gt))

    def batch(self, size):
        images, labels, boxes = zip(*(self.sample() for _ in range(size)))
        return torch.stack(images), torch.stack(labels), torch.stack(boxes)


class Detector(nn.Module):
    def __init__(self, width=12, per_cell=2):
        super().__init__()
        chans = [3, width, width * 2, width * 2]
        self.body = nn.ModuleList(
            nn.Conv2d(a, b, 3, stride=s, padding=1) for a, b, s in zip(chans, chans[1:], (2, 2, 1)))
        self.cls = nn.Conv2d(chans[-1], per_cell * 2, 1)
        self.reg = nn.Conv2d(chans[-1], per_cell * 4, 1)

    def forward(self, x):
        for conv in self.body:
            x = F.leaky_relu(conv(x), 0.1)
        b = x.size(0)
        cls = self.cls(x).permute(0, 2, 3, 1).reshape(b, -1, 2)
        reg = self.reg(x).permute(0, 2, 3, 1).reshape(b, -1, 4)
        return cls, reg


class DetectionLoss(nn.Module):
    def __init__(self, neg_per_pos=3):
        super().__init__()
        self.neg_per_pos = neg_per_pos

    def forward(self, cls, reg, labels, boxes):
        flat = labels.reshape(-1)
        pos = flat > 0
        n_pos = max(int(pos.sum()), 1)
        ce = F.cross_entropy(cls.reshape(-1, 2), flat, reduction="none")
        n_neg = min(self.neg_per_pos * n_pos, flat.numel() - n_pos)
        neg_ce = ce.masked_fill(pos, 0.0)
        hardest, _ = torch.topk(neg_ce, n_neg)
        cls_loss = ((ce * pos).sum() + hardest.sum()) / n_pos
        box = F.smooth_l1_loss(reg.reshape(-1, 4), boxes.reshape(-1, 4), reduction="none").sum(-1)
        return cls_loss, (box * pos).sum() / n_pos


def train(steps=18, batch_size=3):
    torch.manual_seed(2)
    device = xm.xla_device()
    data = LotDataset(GridAnchors(8, (0.15, 0.3)), seed=40)
    model = Detector().to(device)
    criterion = DetectionLoss()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    for step in range(steps):
        images, labels, boxes = (t.to(device) for t in data.batch(batch_size))
        cls_loss, box_loss = criterion(*model(images), labels, boxes)
        loss = cls_loss + 0.5 * box_loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 6 == 0:
            print(f"step {step}: cls {cls_loss.item():.3f} box {box_loss.item():.3f}")


if __name__ == "__main__":
    train()
