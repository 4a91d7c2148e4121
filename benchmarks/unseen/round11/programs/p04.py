"""Single-scale anchor detector (RetinaNet style head) on synthetic rectangles."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def conv_bn(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class Detector(nn.Module):
    def __init__(self, num_classes=3, num_anchors=2):
        super().__init__()
        self.num_classes, self.num_anchors = num_classes, num_anchors
        self.backbone = nn.Sequential(conv_bn(3, 8, 2), conv_bn(8, 16, 2), conv_bn(16, 16, 2))
        self.cls_head = nn.Sequential(conv_bn(16, 16), nn.Conv2d(16, num_anchors * num_classes, 1))
        self.box_head = nn.Sequential(conv_bn(16, 16), nn.Conv2d(16, num_anchors * 4, 1))

    def forward(self, x):
        f = self.backbone(x)
        b = f.size(0)
        cls = self.cls_head(f).permute(0, 2, 3, 1).reshape(b, -1, self.num_classes)
        box = self.box_head(f).permute(0, 2, 3, 1).reshape(b, -1, 4)
        return cls, box


def make_anchors(size=32, stride=8, scales=(8.0, 14.0)):
    centers = (torch.arange(size // stride) + 0.5) * stride
    cy, cx = torch.meshgrid(centers, centers, indexing="ij")
    rows = [torch.stack([cx, cy, torch.full_like(cx, s), torch.full_like(cx, s)], -1) for s in scales]
    return torch.stack(rows, dim=2).reshape(-1, 4)


def corners(b):
    return torch.cat([b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2], -1)


def box_iou(a, b):
    a, b = corners(a), corners(b)
    lt = torch.maximum(a[..., :, None, :2], b[..., None, :, :2])
    rb = torch.minimum(a[..., :, None, 2:], b[..., None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area_a = (a[..., 2:] - a[..., :2]).prod(-1)
    area_b = (b[..., 2:] - b[..., :2]).prod(-1)
    return inter / (area_a[..., :, None] + area_b[..., None, :] - inter)


def encode(gt, anchors):
    return torch.cat([(gt[..., :2] - anchors[..., :2]) / anchors[..., 2:],
                      torch.log(gt[..., 2:] / anchors[..., 2:])], -1)


def focal_loss(logits, targets, alpha=0.25, gamma=2.0):
    ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p = torch.sigmoid(logits)
    pt = p * targets + (1 - p) * (1 - targets)
    w = alpha * targets + (1 - alpha) * (1 - targets)
    return w * (1 - pt) ** gamma * ce


class DetectionLoss(nn.Module):
    def __init__(self, anchors, num_classes, pos_iou=0.25):
        super().__init__()
        self.register_buffer("anchors", anchors)
        self.num_classes, self.pos_iou = num_classes, pos_iou

    def forward(self, cls, box, gt_boxes, gt_labels):
        iou, match = box_iou(self.anchors[None], gt_boxes).max(dim=-1)
        positive = iou > self.pos_iou
        matched = torch.gather(gt_boxes, 1, match[..., None].expand(-1, -1, 4))
        labels = torch.gather(gt_labels, 1, match)
        onehot = F.one_hot(labels, self.num_classes).float() * positive[..., None]
        num_pos = positive.sum().clamp(min=1)
        cls_loss = focal_loss(cls, onehot).sum() / num_pos
        target = encode(matched, self.anchors[None])
        box_loss = F.smooth_l1_loss(box[positive], target[positive], reduction="sum", beta=0.1) / num_pos
        return cls_loss, box_loss


def synth_batch(n, boxes=3, size=32, num_classes=3):
    images = 0.1 * torch.randn(n, 3, size, size)
    wh = torch.rand(n, boxes, 2) * 10 + 6
    xy = torch.rand(n, boxes, 2) * (size - 16) + 8
    labels = torch.randint(0, num_classes, (n, boxes))
    for i in range(n):
        for (x, y), (w, h), c in zip(xy[i].tolist(), wh[i].tolist(), labels[i].tolist()):
            images[i, c, int(y - h / 2):int(y + h / 2), int(x - w / 2):int(x + w / 2)] += 1.0
    return images, torch.cat([xy, wh], -1), labels


def run(steps=16, batch_size=6):
    torch.manual_seed(7)
    device = torch_xla.device()
    model = Detector().to(device).train()
    criterion = DetectionLoss(make_anchors(), 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    for step in range(steps):
        images, boxes, labels = (t.to(device) for t in synth_batch(batch_size))
        cls, box = model(images)
        cls_loss, box_loss = criterion(cls, box, boxes, labels)
        loss = cls_loss + 0.5 * box_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if (step + 1) % 4 == 0:
            print(f"[{step + 1}/{steps}] cls {cls_loss.item():.3f} box {box_loss.item():.3f}")


if __name__ == "__main__":
    run()
